"""Write a run's descriptor (all models and the projection), or one checkpoint, as one file: ONNX or a checkpoint.

export.py --output descriptor.onnx                    the latest run, --run DIR another
export.py --checkpoint FILE --output descriptor.onnx  one network's own vectors
export.py --output descriptor.safetensors             the run as a checkpoint: match.py --checkpoint descriptor.safetensors

An ONNX file needs none of this code. It takes bytes of square RGB images and says in its metadata ("description") how they are
made; it is compared with torch before it is written. Query normalisation needs training vectors and stays outside. A checkpoint
brings some of them along, and the threshold.
"""

import argparse
from pathlib import Path

from data.errors import UserError
from pipeline.run.cli import add_data_option, named_path, report_errors
from pipeline.run.run import open_existing_run


def make_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group()
    source.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    source.add_argument("--checkpoint", type=named_path, metavar="FILE", help="one .safetensors checkpoint")
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
            from pipeline.tools.export_checkpoint import export_joined

            if arguments.checkpoint is not None:
                raise UserError("--checkpoint is a checkpoint already: name an --output FILE.onnx, or a run to make one of.")
            export_joined(open_existing_run(arguments.run, arguments.data), arguments.output)
        else:
            from pipeline.tools.export_onnx import export

            export(arguments.output, arguments.checkpoint, arguments.run, arguments.data)
