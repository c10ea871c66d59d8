"""Write a run's descriptor (all models and the projection), or one checkpoint, as one ONNX file that needs none of this code.

export.py --output descriptor.onnx                    the latest run, --run DIR another
export.py --checkpoint FILE --output descriptor.onnx  one network's own vectors

The file takes bytes of square RGB images and says in its metadata ("description") how they are made. It is compared with torch
before it is written. Query normalisation needs the training vectors and stays outside.
"""

import argparse
from pathlib import Path

from pipeline.run.cli import add_data_option, named_path, report_errors


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
        from pipeline.tools.export_onnx import export

        export(arguments.output, arguments.checkpoint, arguments.run, arguments.data)
