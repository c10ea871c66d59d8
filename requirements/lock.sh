#!/usr/bin/env bash
# Writes py311.lock, py312.lock, py313.lock and py314.lock: every package of ../requirements.txt with the hashes of its files, for Linux on x86-64;
# and py311-cluster.lock …: the packages that ../requirements-cluster.txt adds to them.
# Needs uv (python -m pip install uv). Install with: python -m pip install --require-hashes -r requirements/py313.lock
# (on a cluster also -r requirements/py313-cluster.lock, in the same command)
# and then the project itself: python -m pip install --no-deps --no-build-isolation -e .
set -euo pipefail
cd "$(dirname "$0")/.."

# write_lock PYTHON REQUIREMENTS LOCK [PACKAGE-LEFT-OUT …]
write_lock() {
  local python=$1 requirements=$2 lock=$3 package omitted=(--no-emit-package image-copy-detection)
  for package in "${@:4}"; do omitted+=(--no-emit-package "$package"); done
  {
    echo "# Written by requirements/lock.sh for Python $python, Linux, x86-64; what differs from it is not installed."
    uv pip compile "$requirements" --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        "${omitted[@]}" --python-version "$python" --python-platform x86_64-manylinux_2_28
  } > "$lock.part"
  mv "$lock.part" "$lock"
}

for python in 3.11 3.12 3.13 3.14; do
  lock=requirements/py${python/./}
  write_lock "$python" requirements.txt "$lock.lock"
  mapfile -t locked < <(sed -n 's/^\([^ =]*\)==.*/\1/p' "$lock.lock")
  write_lock "$python" requirements-cluster.txt "$lock-cluster.lock" "${locked[@]}"
done
