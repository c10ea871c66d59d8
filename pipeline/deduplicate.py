"""Find copies among millions of pictures in folders, tars and Parquet files, with --ray on a cluster, and list which to keep.

deduplicate.py --input DIR shards/*.tar --output OUT        copies within the inputs
deduplicate.py --input DIR --against TEST … --output OUT    copies of pictures of test sets (leakage)
deduplicate.py --output OUT --apply NEW                     filtered copies of the tars and tables; inputs are never changed

Vectors and lists are Parquet, which needs the extra `interchange`: pip install '.[interchange]'.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from image_copies.data.errors import UserError
from image_copies.matching.output import Output
from image_copies.pipeline.cluster import add_ray_options, use_ray
from image_copies.pipeline.run import cli

CLASSES = ("same file", "certain", "likely", "same scene")
OWN = {
    "--input": cli.SOURCES | {"help": "folders, tars, Parquet files, @list.txt; also s3://…"},
    "--against": cli.SOURCES | {"help": "test sets: compare the inputs with them only"},
    "--output": cli.PLACE | {"required": True, "help": "vectors and lists; kept for repeats"},
    "--column": {
        "default": "image",
        "metavar": "NAME",
        "help": "Parquet column of bytes, paths or both; default image",
    },
    "--remove": {"nargs": "+", "choices": CLASSES, "default": CLASSES[:2]}
    | {"help": "classes of which a picture goes; default: the first two"},
    "--apply": cli.PLACE | {"help": "write filtered tars and tables of an earlier run to DIR"},
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = cli.make_task_parser("deduplicate", __doc__)
    cli.add_options(options, [*OWN, *cli.NETWORK, *cli.RULE, "--json"], cli.OPTIONS | OWN)
    add_ray_options(options)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    output = Output(options.json)
    if bool(options.input) == bool(options.apply):
        raise UserError("give --input, or --apply with the --output of an earlier run.")
    # imported here: --help must answer at once
    from image_copies.data.locks import LOCK_NAME, hold_folder
    from image_copies.data.remote import is_remote
    from image_copies.data.sources.tables import import_pyarrow
    from image_copies.data.sources.walking import check_there, expand_sources
    from image_copies.data.targets import check_target_folder
    from image_copies.matching.dedup.applying import write_filtered
    from image_copies.matching.dedup.deduplication import INPUTS, WRITTEN, DedupSettings, deduplicate
    from image_copies.matching.extractor import make_rule
    from image_copies.pipeline.tools.networks import open_extractor

    import_pyarrow("dedup writes Parquet, which needs")
    in_store = is_remote(options.output)
    check_target_folder(options.output, "--output", [INPUTS if in_store else LOCK_NAME], WRITTEN)
    holding = nullcontext() if in_store else hold_folder(options.output, "deduplicating")
    if options.apply is not None:
        with holding:
            written = write_filtered(options.output, options.apply)
        output.say(
            f"{len(written)} filtered files, and what became of each input, manifest.csv: {options.apply}"
        )
        return 0
    for source in (*options.input, *options.against):
        check_there(next(expand_sources([source])))
    with use_ray(options.ray, options.ray_gpu, output.say):
        extractor = open_extractor(options.run, options.data, options.checkpoint, options.joined)
        rule = make_rule(extractor, options.threshold, options.false_alarms)
        settings = DedupSettings(
            options.input,
            options.against,
            options.output,
            options.column,
            options.remove,
        )
        with holding:
            deduplicate(extractor, rule, settings, output)
    return 0


if __name__ == "__main__":
    with cli.report_errors():
        sys.exit(main())
