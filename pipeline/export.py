"""Write a run's descriptor (all models and the projection), or one checkpoint, as a single file: ONNX or a checkpoint.

export.py --output descriptor.onnx                    the latest run; another with --run DIR
export.py --checkpoint FILE --output descriptor.onnx  a single network
export.py --output descriptor.safetensors             the run as a checkpoint: match.py --checkpoint descriptor.safetensors

An ONNX file runs without this code. It takes uint8 square RGB images; its metadata ("description") says how to prepare them.
Before it is written it is compared with torch. It does not normalise queries, because that needs training vectors; a checkpoint
contains some of them, and the calibrated threshold.
"""

import argparse
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.pipeline.run.cli import add_data_option, named_path, report_errors
from image_copies.pipeline.run.run import open_existing_run


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group()
    source.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    source.add_argument("--checkpoint", type=named_path, metavar="FILE", help="a .safetensors checkpoint instead of a run")
    options.add_argument(
        "--output", type=named_path, metavar="FILE", default=Path("descriptor.onnx"), help="default: descriptor.onnx"
    )
    add_data_option(options)
    return options


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        # imported here: --help must answer at once
        if arguments.output.suffix == ".safetensors":
            from image_copies.pipeline.tools.export_checkpoint import export_joined

            if arguments.checkpoint is not None:
                raise UserError("--checkpoint is already a checkpoint: give --output FILE.onnx, or a run to export.")
            export_joined(open_existing_run(arguments.run, arguments.data), arguments.output)
        else:
            from image_copies.pipeline.tools.export_onnx import export

            export(arguments.output, arguments.checkpoint, arguments.run, arguments.data)
