"""What match.py's options mean."""

import argparse
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.errors import UserError
from pipeline.run.run import Run, open_existing_run
from pipeline.tools.extractor import Extractor, checkpoint_extractor, onnx_extractor, run_extractor
from pipeline.tools.match_calibration import calibrate_on_images, calibrate_on_run
from pipeline.tools.match_folders import Added, add_folder, forget_missing, images_below, indexed_path, match_folder, match_within
from submissions.index.calibration import Tail
from submissions.index.matches import Matches, Rule, counted, write_matches_csv
from submissions.index.store import FILE, Store, open_store, remove_files
from submissions.report.matches_page import write_matches_page
from submissions.report.output_folder import check_output_folder

GALLERY = "gallery"


def match(options: argparse.Namespace) -> None:
    """Change the index, search it, write `matches.csv` and `gallery/index.html`."""
    _check_folders(options)
    check_output_folder(options.output / GALLERY, "--output")
    run, extractor = _extractor(options)
    if options.queries is None:
        with open_store(options.index, extractor.identity, extractor.dimensions, new=bool(options.add)) as store:
            _change(store, extractor, options)
        return
    with alone(options.output):
        private = options.index is None
        folder = options.output / "index" if private else options.index
        with open_store(
            folder, extractor.identity, extractor.dimensions, replace=private, new=private or bool(options.add)
        ) as store:
            _change(store, extractor, options)
            rule = Rule(options.threshold, _tail(options, run, extractor), options.false_alarms, options.most)
            references = options.references or options.queries
            if private:
                _tell_added(references, add_folder(store, extractor, references))
                forget_missing(store, references)
            if private and options.references is None:
                matches = match_within(store, extractor, rule)
            else:
                matches = match_folder(store, extractor, options.queries, rule)
        _write(options, matches, rule)


def _check_folders(options: argparse.Namespace) -> None:
    """UserError for a folder without images or an index that is not there, before anything is embedded."""
    for folder in (options.queries, options.references, options.unrelated, *options.add):
        if folder is not None:
            images_below(folder)
    if options.index is None:
        return
    database = options.index / FILE
    if options.add and database.is_file() and not database.stat().st_size:
        print(f"{database} is empty, as a killed or damaged one is: a new index is made")
    if not options.add and not database.exists():
        raise UserError(
            f"{options.index} holds no index. Make it with: python pipeline/match.py --index {options.index} --add DIR"
        )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """UserError while another match.py writes into the same folder. The lock goes with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"--output {folder} is a file. Name a folder.") from error
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"another match.py is writing into {folder}. Wait for it, or name another --output.") from error
        yield
    finally:
        os.close(handle)


def _extractor(options: argparse.Namespace) -> tuple[Run | None, Extractor]:
    if options.checkpoint is not None:
        return None, checkpoint_extractor(options.checkpoint)
    if options.onnx is not None:
        return None, onnx_extractor(options.onnx)
    run = open_existing_run(options.run, options.data)
    return run, run_extractor(run)


def _tail(options: argparse.Namespace, run: Run | None, extractor: Extractor) -> Tail | None:
    if options.unrelated is not None:
        return calibrate_on_images(extractor, images_below(options.unrelated))
    try:
        return calibrate_on_run(run, extractor) if run is not None else None
    except UserError:
        if options.threshold is not None:
            return None  # the rates are not known; the threshold is the user's own
        raise


def _change(store: Store, extractor: Extractor, options: argparse.Namespace) -> None:
    for folder in options.add:
        _tell_added(folder, add_folder(store, extractor, folder))
    if options.remove:
        removed = remove_files(store, map(indexed_path, options.remove))
        print(f"removed {sum(removed.values())} files from {store.folder}")
        for path in [path for path, files in removed.items() if not files]:
            print(f"{path} is not in it, nor anything below")


def _tell_added(folder: Path, added: Added) -> None:
    closed = f"{len(added.closed)} cannot be opened, the first is {added.closed[0]}, " if added.closed else ""
    print(f"{folder}: {added.images} images, {added.embedded} of them embedded, {closed}the others were known")


def _write(options: argparse.Namespace, matches: Matches, rule: Rule) -> None:
    write_matches_csv(options.output / "matches.csv", matches)
    page = write_matches_page(options.output / GALLERY, matches, rule)
    print(f"{matches.queries} queries, {matches.references} different references; {counted(matches)} {_decided(matches, rule)}")
    if matches.unreadable:
        print(f"images that cannot be read and match nothing: {len(matches.unreadable)}, the first is {matches.unreadable[0]}")
    print(f"matches: {options.output / 'matches.csv'}\ngallery: {page}")


def _decided(matches: Matches, rule: Rule) -> str:
    if matches.threshold is None:
        return "listed; nothing calibrates a threshold here: add --unrelated DIR or --threshold"
    if rule.score is not None:
        return f"of at least {matches.threshold:.3f}"
    return f"of at least {matches.threshold:.3f} ({rule.rate:g} false alarms per query to be expected)"
