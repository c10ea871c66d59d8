"""What match.py's options mean."""

import argparse
from pathlib import Path

from data.errors import UserError
from pipeline.describing import Describer, calibrate, calibrate_on, checkpoint_describer, onnx_describer, run_describer
from pipeline.matching import add_folder, forget_missing, images_below, match_folder, match_within
from pipeline.stage import Run, open_run
from submissions.calibration import Tail
from submissions.index.matches import Matches, Rule, write_matches_csv
from submissions.index.store import Store, open_store, remove_files
from submissions.report.matches_page import write_matches_page


def match(options: argparse.Namespace) -> None:
    """Change the index, search it, write `matches.csv` and `gallery/index.html`."""
    run, describer = _describer(options)
    private = options.index is None
    with open_store(options.index or options.output / "index", describer.identity, describer.dimensions) as store:
        _change(store, describer, options)
        if options.queries is None:
            return
        rule = Rule(options.threshold, _tail(options, run, describer), options.false_alarms, options.most)
        references = options.references or options.queries
        if private:
            _tell_added(references, *add_folder(store, describer, references))
            forget_missing(store, references)
        if private and options.references is None:
            matches = match_within(store, describer, rule)
        else:
            matches = match_folder(store, describer, options.queries, rule)
    _write(options, matches, rule)


def _describer(options: argparse.Namespace) -> tuple[Run | None, Describer]:
    if options.checkpoint is not None:
        return None, checkpoint_describer(options.checkpoint)
    if options.onnx is not None:
        return None, onnx_describer(options.onnx)
    run = open_run(argparse.Namespace(run=options.run, recipe=None, data=None))
    return run, run_describer(run)


def _tail(options: argparse.Namespace, run: Run | None, describer: Describer) -> Tail | None:
    if options.unrelated is not None:
        return calibrate_on(describer, images_below(options.unrelated))
    try:
        return calibrate(run, describer) if run is not None else None
    except UserError:
        if options.threshold is not None:
            return None  # the rates are not known; the threshold is the user's own
        raise


def _change(store: Store, describer: Describer, options: argparse.Namespace) -> None:
    for folder in options.add:
        _tell_added(folder, *add_folder(store, describer, folder))
    if options.remove:
        print(f"removed {remove_files(store, [path.resolve() for path in options.remove])} files from {store.folder}")


def _tell_added(folder: Path, files: int, embedded: int) -> None:
    print(f"{folder}: {files} images, {embedded} of them embedded, the others were known")


def _write(options: argparse.Namespace, matches: Matches, rule: Rule) -> None:
    write_matches_csv(options.output / "matches.csv", matches)
    page = write_matches_page(options.output / "gallery", matches, rule)
    print(f"{matches.queries} queries, {matches.references} different references, {len(matches.pairs)} {_decided(matches, rule)}")
    if matches.unreadable:
        print(f"{len(matches.unreadable)} images cannot be read and match nothing, the first is {matches.unreadable[0]}")
    print(f"matches: {options.output / 'matches.csv'}\ngallery: {page}")


def _decided(matches: Matches, rule: Rule) -> str:
    if matches.threshold is None:
        return "pairs listed, the nearest of each query; nothing calibrates a threshold here: add --unrelated DIR or --threshold"
    if rule.score is not None:
        return f"pairs that score at least {matches.threshold:.3f}"
    return f"matches that score at least {matches.threshold:.3f} ({rule.rate:g} false alarms per query to be expected)"
