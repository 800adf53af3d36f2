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
"${PIP[@]}" install -q --upgrade "pip>=25" || die "pip could not be updated: is a package index reachable?"

torch=$(grep '^torch==' constraints.txt)
if ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    # The CPU build is about 200 MB; a plain torch on Linux x86_64 is a CUDA build of about 5 GB.
    say "installing $torch (a CPU build where one can be had)"
    "${PIP[@]}" install -q --no-index "$torch" -c constraints.txt 2>/dev/null && say "found on this machine" \
        || "${PIP[@]}" install -q "$torch" --no-deps ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} \
        || say "no torch could be installed ahead; the next step takes what the index offers"
fi

say "installing Kith and its packages (one to three minutes the first time)"
"${PIP[@]}" install --progress-bar on -e '.[dev]' -c constraints.txt | grep -vE '^(Requirement already|Looking in|  )' \
    || die "the packages could not be installed: see the lines above"
"${PIP[@]}" check >/dev/null || die "$("${PIP[@]}" check | head -n 1)"
echo "$stamp" > .venv/.kith-stamp
say "done"
