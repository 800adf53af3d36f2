#!/usr/bin/env bash
# Makes .venv in the checkout and installs everything the room, the replay and the tests need.
# Idempotent: a stamp of pyproject.toml + constraints.txt skips the work when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
die() { printf 'set-up stopped: %s\n' "$*" >&2; exit 1; }

PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null 2>&1 || die "Python 3.11 or newer is missing (set PYTHON=/path/to/python3.11)"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || die "Python 3.11 or newer is needed, $("$PYTHON" --version 2>&1) was found (set PYTHON=...)"
"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || die "the venv module is missing (Debian: apt-get install python3-venv)"
command -v cc >/dev/null 2>&1 || die "a C compiler is missing (Debian: apt-get install build-essential)"

stamp=$(cat pyproject.toml constraints.txt scripts/setup.sh | cksum)
if [ -x .venv/bin/python ] && [ "$(cat .venv/.kith-stamp 2>/dev/null)" = "$stamp" ]; then
    say "set-up is complete (.venv matches pyproject.toml and constraints.txt)"
    exit 0
fi

[ -x .venv/bin/python ] || { say "making .venv"; "$PYTHON" -m venv .venv; }
PIP=(.venv/bin/python -m pip --disable-pip-version-check)
# pip before 25 resolves this tree much more slowly
say "updating pip"
"${PIP[@]}" install -q --upgrade "pip>=25" 2>/dev/null || die "pip could not be updated: is a package index reachable?"

torch=$(grep '^torch==' constraints.txt)
cpu_torch() {
    # a wheel that lies on this machine (pip's find-links), else PyTorch's own CPU index
    "${PIP[@]}" install -q --no-index --no-deps "$torch" 2>/dev/null && return 0
    "${PIP[@]}" install -q uv 2>/dev/null || return 1
    UV_HTTP_TIMEOUT=20 UV_HTTP_RETRIES=0 .venv/bin/uv pip install -q --python .venv/bin/python \
        --torch-backend cpu --no-deps "$torch" 2>/dev/null
}
if ! "${PIP[@]}" show -q torch >/dev/null 2>&1; then
    # The CPU build is about 200 MB; a plain torch on Linux x86_64 is a CUDA build of about 5 GB.
    say "installing $torch (CPU build)"
    cpu_torch || say "no CPU build of torch can be had here: going on with what the index offers (up to 5 GB)"
fi

say "installing Kith and its packages (one to three minutes the first time)"
"${PIP[@]}" install --progress-bar on -e '.[dev]' -c constraints.txt > .venv/setup.log 2>&1 &
job=$!
shown=
while kill -0 "$job" 2>/dev/null; do
    now=$(grep -aoE '^(Collecting|Downloading|Building|Installing) [^ ]+' .venv/setup.log | tail -n 1 || true)
    if [ -t 1 ]; then
        printf '\r\033[K    %.70s' "$now"  # one line that moves
    elif [ "${now%% *}" != "$shown" ]; then
        shown=${now%% *}
        [ -z "$shown" ] || say "${shown,,} packages"
    fi
    sleep 1
done
[ ! -t 1 ] || printf '\r\033[K'
wait "$job" || { grep -aE '^ERROR' .venv/setup.log | head -n 5 >&2; die "the packages could not be installed: see .venv/setup.log"; }
"${PIP[@]}" check >/dev/null || die "$("${PIP[@]}" check | head -n 1)"
echo "$stamp" > .venv/.kith-stamp
say "done"
