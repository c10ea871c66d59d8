"""Write a run's descriptor (all models and the projection), or one checkpoint, as a single file: ONNX or a checkpoint.

export.py --output descriptor.onnx                    the latest run; another with --run DIR
export.py --checkpoint FILE --output descriptor.onnx  a single network
export.py --output descriptor.safetensors             the run as a checkpoint: match.py --checkpoint descriptor.safetensors
export.py --checkpoint FILE --graph                   write beside FILE what match.py needs to use it without torch: its graph
export.py --checkpoint FILE --unrelated SOURCE OTHERS  write next to FILE what states its false alarms, which leaves FILE as it is

An ONNX file runs without this code. It takes uint8 square RGB images; its metadata ("description") says how to prepare them.
Before it is written it is compared with torch. It does not normalise queries, because that needs training vectors; a checkpoint
contains some of them, and the calibrated threshold.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.pipeline.run import cli
from image_copies.pipeline.run.run import open_existing_run

OWN = {
    "--graph": cli.FLAG
    | {"help": "with --checkpoint: write beside it what match.py needs to use it without torch"},
    "--unrelated": {"type": cli.named_path, "nargs": 2, "metavar": ("SOURCE", "OTHERS")}
    | {
        "help": "with --checkpoint: fit its false alarms again, on edited pictures that it has not learnt from, and on others"
    },
    "--output": cli.FILE | {"default": Path("descriptor.onnx"), "help": "default: descriptor.onnx"},
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = cli.make_task_parser("export", __doc__)
    cli.add_options(options, [("--run", "--checkpoint"), "--data", *OWN], cli.OPTIONS | OWN)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    # imported here: --help must answer at once
    if options.graph:
        from image_copies.pipeline.tools.export import add_checkpoint_graph

        if options.checkpoint is None:
            raise UserError(
                "--graph goes with --checkpoint FILE: the graph of a run is written with its checkpoint (--output)."
            )
        add_checkpoint_graph(options.checkpoint)
        return 0
    if options.unrelated:
        from image_copies.pipeline.tools.export import export_synthetic

        if options.checkpoint is None:
            raise UserError(
                "--unrelated goes with --checkpoint FILE: a run calibrates the threshold on its own pictures."
            )
        print(
            f"{export_synthetic(options.checkpoint, *options.unrelated)} states the false alarms of {options.checkpoint}"
        )
        return 0
    from image_copies.data.targets import check_target
    from image_copies.models.inference.onnx_embedder import is_exported
    from image_copies.models.network.description import is_checkpoint

    check_target(
        options.output,
        "--output",
        {".onnx": is_exported, ".safetensors": is_checkpoint},
        [options.checkpoint],
    )
    if options.output.suffix == ".safetensors":
        from image_copies.pipeline.tools.export import export_joined

        if options.checkpoint is not None:
            raise UserError(
                "--checkpoint is already a checkpoint: give --output FILE.onnx, or a run to export."
            )
        export_joined(open_existing_run(options.run, options.data), options.output)
    else:
        from image_copies.pipeline.tools.export import export

        export(options.output, options.checkpoint, options.run, options.data)
    return 0


if __name__ == "__main__":
    with cli.report_errors():
        main()
