"""Choose p*, GeM's exponent for embedding at sizes other than the one that a network was trained at (MultiGrain).

python -m image_copies.studies.multigrain.choose_exponent --checkpoint FILE --sizes 64 96
    the best of p 1 … 10 on IN-aug, edited copies of training images

FILE is models/<model>/stage-<n>.safetensors of a run; --data gives training images other than that run's.
"""

from argparse import RawDescriptionHelpFormatter

from image_copies.pipeline.run.cli import (
    DIR,
    FILE,
    PIXELS,
    SEED,
    CommandParser,
    Table,
    above_zero,
    add_options,
    at_least,
    report_errors,
)

COMMAND = "python -m image_copies.studies.multigrain.choose_exponent"
OPTIONS: Table = {
    "--checkpoint": FILE | {"required": True, "help": "the trained network"},
    "--data": DIR
    | {
        "help": "training images: a folder in the ISC2021 layout, of class folders, or of images (default: those of its run)"
    },
    "--sizes": {"type": PIXELS, "nargs": "+", "metavar": "PIXELS"}
    | {"help": "sizes to embed at (default: the one it was trained at)"},
    "--exponents": {
        "type": above_zero("3"),
        "nargs": "+",
        "metavar": "P",
        "default": tuple(map(float, range(1, 11))),
    }
    | {"help": "the candidates (default: 1 to 10)"},
    "--images": {"type": at_least(2), "metavar": "N", "default": 2000}
    | {"help": "training images to edit, as many of each class; all where there are fewer (default: 2000)"},
    "--seed": {
        "type": SEED,
        "metavar": "N",
        "default": 0,
        "help": "seed of the choice of images and their edits (default: 0)",
    },
    "--workers": {
        "type": at_least(0),
        "metavar": "N",
        "help": "processes that read images (default: one per core)",
    },
}


if __name__ == "__main__":
    options = CommandParser(COMMAND, description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(options, OPTIONS, OPTIONS)
    arguments = options.parse_args()
    with report_errors():
        # imported here: --help must answer at once
        from .pooling_exponent import choose_exponent

        choose_exponent(
            arguments.checkpoint,
            arguments.exponents,
            arguments.images,
            arguments.seed,
            arguments.data,
            arguments.sizes,
            arguments.workers,
        )
