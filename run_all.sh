#!/usr/bin/env bash
# From photos to a scored submission: every step in order; steps that are up to date are skipped.
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: bash run_all.sh [--data DIR | --photos DIR] [--recipe FILE] [--run DIR] [--scale SHARE]

  (nothing)       make the built-in sample of procedural pictures and run on it; with --run alone, continue that run
  --data DIR      a folder in the ISC2021 layout: training_images/ reference_images/ query_images/
                  and, to be scored, public_ground_truth.csv
  --photos DIR    any folder of pictures: split into training, references and queries, with edited copies
  --recipe FILE   what to train and how (default: recipes/collection.yaml, which starts from the descriptor that ships with the
                  project; for the sample recipes/sample.yaml, which learns from nothing)
  --run DIR       folder of the results (default: runs/<name of the data>)
  --scale SHARE   for a quick trial: this share of the recipe's classes, and at most 2 epochs per stage, such as 0.001
  --help          this text

A stopped run continues where it stopped: repeat the command. If this script itself is killed with SIGKILL (kill -9), the step that it
runs goes on, and the run folder stays in use until that step ends: wait for it, or end the process that the next command names.
HELP
}

fail() { echo "error: $1" >&2; exit 2; }

data="" photos="" recipe="" run="" scale=""
while [ $# -gt 0 ]; do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --data | --photos | --recipe | --run | --scale)
      [ $# -ge 2 ] || fail "$1 needs a value; see bash run_all.sh --help"
      [ -n "$2" ] || fail "$1 is empty (an unset variable?); see bash run_all.sh --help"
      case "$1" in --data) data=$2 ;; --photos) photos=$2 ;; --recipe) recipe=$2 ;; --run) run=$2 ;; --scale) scale=$2 ;; esac
      shift 2 ;;
    *) fail "unknown option $1; see bash run_all.sh --help" ;;
  esac
done
[ -z "$data" ] || [ -z "$photos" ] || fail "--data and --photos cannot be combined: give one; see bash run_all.sh --help"

case "$run" in *://*) fail "--run names a place on an object store: name a folder of this machine, and copy the run with the store's own tool" ;; esac

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}  # spinning threads starve each other on busy machines

export COPY_DETECTION_SESSION=$$  # reserves the run folder for this script, also between the steps

# A step runs in the background with job control, so that a signal to this script is forwarded to the step at once and only once.
set -m
step="" stopped=""
forward() {
  stopped=$1
  [ -z "$step" ] || kill -s "$1" "$step" 2> /dev/null || true
}
trap 'forward TERM' TERM
trap 'forward INT' INT
trap 'forward HUP' HUP
run_step() {
  local code=0
  "$python" "$here/pipeline/$1.py" "${@:2}" &
  step=$!
  wait "$step" || code=$?
  while kill -0 "$step" 2> /dev/null; do wait "$step" || code=$?; done  # a signal ends the wait before the step
  step=""
  if [ "$code" -eq 0 ] && [ -n "$stopped" ]; then code=$((128 + $(kill -l "$stopped"))); fi
  [ "$code" -eq 0 ] || exit "$code"
}

default=collection
if [ -n "$photos" ]; then
  [ -d "$photos" ] || fail "$photos is not a folder. Give a folder of pictures."
  name=$(basename "$(cd "$photos" && pwd)")
  data=runs/data/$name
  run_step make_data --photos "$photos" --output "$data"
elif [ -z "$data" ] && [ -n "$run" ] && [ -f "$run/run.json" ]; then
  :  # an existing run records its data set
elif [ -z "$data" ]; then
  data=runs/data/sample default=sample
  run_step make_data --output "$data"
fi
[ -n "$run" ] || run=runs/$(basename "$data")

if [ -z "$recipe" ] && [ ! -f "$run/run.json" ]; then recipe=$here/recipes/$default.yaml; fi

opened=(--run "$run" ${data:+--data "$data"} ${recipe:+--recipe "$recipe"} ${scale:+--scale "$scale"})
run_step 00_augment "${opened[@]}"
for name in 01_train 02_embed 03_ensemble 04_normalize 05_submit 06_score; do
  run_step "$name" --run "$run"
done
