#!/usr/bin/env bash
# Builds .venv from a complete lock, without a resolver: a resolver would bring torchvision and torchaudio as CUDA builds that break
# `import transformers` beside a CPU torch. Order matters: torch, then the lock, then deepspeed (its build imports torch).
#
#   PYTHON=python3.11 TORCH_INDEX=https://download.pytorch.org/whl/cpu bash requirements/install.sh requirements/cpu.txt
set -euo pipefail

LOCK=$1
PYTHON=${PYTHON:-python3.11}
NEEDED_GB=7

fail() { printf 'environment: %s\n' "$*" >&2; exit 2; }

command -v "$PYTHON" >/dev/null ||
    fail "Python 3.11 was expected as '$PYTHON' and is not on the PATH. Install it, or name it: make env PYTHON=/path/to/python3.11"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "'$PYTHON' does not start."
[ "$version" = 3.11 ] || fail "Python 3.11 was expected (the lock's wheels are for it), '$PYTHON' is $version. Name another: make env PYTHON=/path/to/python3.11"
free_gb=$(df -Pk . | awk 'NR==2 { print int($4 / 1048576) }')
[ "$free_gb" -ge "$NEEDED_GB" ] || [ -d .venv ] ||
    fail "about $NEEDED_GB GB of disk are needed here for the virtual environment and its downloads, $free_gb GB are free in $PWD."

[ ! -L .venv ] ||
    fail ".venv is a link to $(readlink .venv), and an environment is never changed through a link: others may use it. Remove the link to have one built here; if it is as $LOCK has it, touch .venv/.complete says so."

TORCH=$(grep '^torch==' "$LOCK")
DEEPSPEED=$(grep '^deepspeed==' "$LOCK")

[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
PIP=(.venv/bin/python -m pip --disable-pip-version-check --quiet install --no-deps)
download() {
    "${PIP[@]}" "$@" ||
        fail "pip could not install '${*: -1}' (its own words are above). Is the package index reachable? Behind a mirror, set PIP_INDEX_URL and run make again: what is installed already is kept."
}

echo "environment: 1/4 torch (CPU build)"
if [ -n "${TORCH_INDEX:-}" ]; then download --index-url "$TORCH_INDEX" "$TORCH"; else download "$TORCH"; fi
if grep -qE "^cuda.*= *['\"]" .venv/lib/python3.11/site-packages/torch/version.py; then
    rm -rf .venv
    fail "the index gave a CUDA build of $TORCH; this lock is for the CPU build. Run: TORCH_INDEX=https://download.pytorch.org/whl/cpu make env (on a CUDA machine see requirements/gpu.txt)"
fi
download wheel==0.46.3 packaging==26.2 setuptools==80.9.0
echo "environment: 2/4 $(grep -c == "$LOCK") pinned packages (about four minutes)"
grep -vE '^(torch|deepspeed)==' "$LOCK" > .venv/lock.txt
download -r .venv/lock.txt
echo "environment: 3/4 deepspeed (built against the torch above)"
download --no-build-isolation "$DEEPSPEED"
echo "environment: 4/4 this project"
download --no-build-isolation --editable .
touch .venv/.complete
echo "environment: ready in .venv"
