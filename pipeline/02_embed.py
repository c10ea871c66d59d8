"""Step 02: embed training, reference, query and synthetic images with every model, or any folder with a checkpoint.

With --ray, the images are distributed over the workers of a Ray cluster, with a bit-identical result.
"""

import argparse
from collections.abc import Sequence
from importlib.util import find_spec

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.cluster import add_ray_options, use_ray
from image_copies.pipeline.run import cli
from image_copies.pipeline.steps.definitions import EMBED, run_step

OPTIONS: cli.Table = {
    "--checkpoint": cli.FILE
    | {
        "help": "embed --images with this checkpoint instead of the descriptor that ships with the project; timm:NAME[=WEIGHTS] "
        "takes timm's network and writes it as a checkpoint next to --output"
    },
    "--with": cli.OPTIONS["--with"],
    "--images": cli.PLACE | {"help": "folder of images to embed outside a run; or s3://…"},
    "--output": cli.PLACE
    | {"metavar": "FILE", "help": "with --images: vectors to write, .h5 or .parquet; or s3://…"},
    "--workers": {"type": cli.at_least(0), "metavar": "N"}
    | {"help": "with --images: processes that decode images; one per core if not given"},
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = cli.make_step_parser(__doc__, name_command("02_embed"))
    cli.add_options(parser, OPTIONS, OPTIONS)
    add_ray_options(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    with use_ray(options.ray, options.ray_gpu):
        if options.workers is not None and options.images is None:
            raise UserError(
                "--workers goes with --images; a run takes its workers from its recipe (embedding.workers)."
            )
        named = "" if options.checkpoint is None else str(options.checkpoint)
        if options.checkpoint is None and options.images is None and options.output is None:
            run_step(cli.open_chosen_run(options), EMBED, options.force)
        elif options.images is None or options.output is None:
            raise UserError(
                "--images and --output must be given together, optionally with --checkpoint; give none of them to embed a run."
            )
        else:
            _embed_outside_run(options, named)
    return 0


def _embed_outside_run(options: argparse.Namespace, named: str) -> None:
    """Embed the images that --images names."""
    # imported here: an up-to-date step must return at once
    from image_copies.data.targets import check_target
    from image_copies.matching.extractor import split_size
    from image_copies.models.network.description import is_checkpoint
    from image_copies.submissions.vectors.files import is_vectors

    network = options.output.with_name(f"{options.output.name}.network.safetensors")
    check_target(
        options.output,
        "--output",
        dict.fromkeys((".h5", ".hdf5", ".parquet", ".pq"), is_vectors),
        [options.images],
    )
    if named.startswith("timm:"):
        from image_copies.pipeline.tools.export import write_timm

        check_target(network, "--output", {".safetensors": is_checkpoint})
        write_timm(named, network)
        print(f"network: {network}", flush=True)
    checkpoint = network if named.startswith("timm:") else options.checkpoint or SHIPPED
    if (
        find_spec("torch") is None
        or options.joined is not None
        or split_size(checkpoint)[0].suffix == ".onnx"
    ):
        from image_copies.pipeline.tools.networks import open_extractor
        from image_copies.pipeline.tools.run_extractor import embed_by_extractor

        extractor = open_extractor(None, None, checkpoint, options.joined)
        return embed_by_extractor(extractor, options.images, options.output, options.workers)
    from image_copies.pipeline.steps.embed import embed_folder

    embed_folder(checkpoint, options.images, options.output, workers=options.workers)


if __name__ == "__main__":
    with cli.report_errors():
        main()
