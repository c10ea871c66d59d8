"""Find copies among pictures: the command image-copies.

image-copies FOLDER…                 find copies in folders, group them, and suggest which files to keep
image-copies A.jpg B.jpg             are they copies of each other?
image-copies undo                    put back what `match --apply` removed

image-copies match --help            all searches: references, a kept index, leakage between sets, decisions, plans
image-copies review [FOLDER]         decide about what a search found on a page, http://127.0.0.1:8765
image-copies serve --index DIR       search a kept index over HTTP, for programs
image-copies explore                 either of the two, by its options
image-copies dedup                   list the copies among millions of pictures in folders, tars and Parquet files
image-copies embed                   write the vectors of pictures to a file
image-copies score                   score vectors or a submission against a ground truth
image-copies export                  write a network for ONNX Runtime, or a run as one file

Five examples:
  image-copies ~/Pictures
  image-copies photo.jpg photo-small.jpg
  image-copies match --queries uploads --references originals --verify
  image-copies match --apply move
  image-copies embed --images photos --output vectors.h5

Nothing is changed until you say --apply. `image-copies TASK --help` lists the options of a task.
Exit codes: 0 done, or the two pictures are copies; 1 they are not, or some files were left alone; 2 an error that the message
explains; 3 the two pictures are likely copies, to be looked at; 130 stopped by Ctrl-C.
"""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from image_copies.pipeline.streams import end_with_reader, prepare_streams

# For each task: the script that does it, and the options that it begins with. `data.commands` names the scripts in messages.
TASKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "match": ("match", ()),
    "undo": ("match", ("--undo",)),
    "review": ("explore", ("--matches",)),
    "serve": ("explore", ("--serve",)),
    "explore": ("explore", ()),
    "dedup": ("deduplicate", ()),
    "embed": ("02_embed", ()),
    "score": ("06_score", ()),
    "export": ("export", ()),
}
RESULTS = "matches"  # the folder that a search writes to and a review reads


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the task that the command line names, or search the pictures that it names; return the exit code."""
    prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        with end_with_reader():
            print(__doc__)
        return 0 if given else 2
    task = given[0] if given[0] in TASKS else "match"
    rest = given[1:] if given[0] in TASKS else given
    if given[0] not in TASKS and (meant := _find_meant(given[0])):
        print(
            f"error: {given[0]} is neither a task nor a file or folder. Did you mean: image-copies {meant}",
            file=sys.stderr,
        )
        return 2
    if task == "review" and (not rest or rest[0].startswith("-")) and not {"-h", "--help"} & set(rest):
        rest = [RESULTS, *rest]
    script, begins_with = TASKS[task]
    begins_with = () if {"-h", "--help"} & set(rest) else begins_with
    from image_copies.pipeline.run.cli import report_errors  # imported here: --help must answer at once

    with report_errors():
        code: int = import_module(f"image_copies.pipeline.{script}").main([*begins_with, *rest])
        return code


def _find_meant(text: str) -> str | None:
    """Return the task that a mistyped word was meant to be; None for an option and for what exists."""
    if text.startswith(("-", "@")) or Path(text).exists():
        return None
    return next(iter(get_close_matches(text, TASKS, 1)), None)


if __name__ == "__main__":
    sys.exit(main())
