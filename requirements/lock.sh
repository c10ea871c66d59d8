#!/usr/bin/env bash
# Writes py311.lock, py312.lock and py313.lock: every package of ../requirements.txt with the hashes of its files, for Linux on x86-64.
# Needs uv (python -m pip install uv). Install with: python -m pip install --require-hashes -r requirements/py313.lock
# and then the project itself: python -m pip install --no-deps --no-build-isolation -e .
set -euo pipefail
cd "$(dirname "$0")/.."
for python in 3.11 3.12 3.13; do
  lock=requirements/py${python/./}.lock
  {
    echo "# Written by requirements/lock.sh for Python $python, Linux, x86-64; what differs from it is not installed."
    uv pip compile requirements.txt --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --no-emit-package image-copy-detection --python-version "$python" --python-platform x86_64-manylinux_2_28
  } > "$lock.part"
  mv "$lock.part" "$lock"
done
