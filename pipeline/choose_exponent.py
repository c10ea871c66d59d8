"""Choose p*, GeM's exponent for embedding at sizes other than the one that a network was trained at (MultiGrain).

choose_exponent.py --checkpoint FILE --sizes 64 96               search p* in 1 … 10 on IN-aug, edited copies of training images
choose_exponent.py --checkpoint FILE --sizes 64 96 --method sgd  train p alone, with the classifier stored with the checkpoint

FILE is models/<model>/stage-<n>.safetensors of a run; --data gives training images other than that run's.
"""

from image_copies.pipeline.run.cli import (
    DIR,
    FILE,
    PIXELS,
    SEED,
    Table,
    above_zero,
    add_options,
    at_least,
    make_task_parser,
    report_errors,
)

OPTIONS: Table = {
    "--checkpoint": FILE | {"required": True, "help": "the trained network"},
    "--data": DIR
    | {
        "help": "training images: a folder in the ISC2021 layout, of class folders, or of images (default: those of its run)"
    },
    "--sizes": {"type": PIXELS, "nargs": "+", "metavar": "PIXELS"}
    | {"help": "sizes to embed at (default: the one it was trained at)"},
    "--method": {"choices": ("search", "sgd"), "default": "search"}
    | {
        "help": "search: the p that ranks most of an image's 5 edited copies among its 5 nearest; "
        "sgd: one pass of SGD on p alone, which needs a classifier (objectives softmax and multigrain) (default: search)"
    },
    "--exponents": {
        "type": above_zero("3"),
        "nargs": "+",
        "metavar": "P",
        "default": tuple(map(float, range(1, 11))),
    }
    | {"help": "with search: the candidates (default: 1 to 10)"},
    "--images": {"type": at_least(2), "metavar": "N"}
    | {
        "help": "training images to use, as many of each class (default: search 2000, sgd 50000; all where there are fewer)"
    },
    "--learning-rate": {
        "type": above_zero("0.005"),
        "metavar": "RATE",
        "default": 0.005,
        "help": "with sgd (default: 0.005)",
    },
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
    options = make_task_parser("choose_exponent", __doc__)
    add_options(options, OPTIONS, OPTIONS)
    arguments = options.parse_args()
    with report_errors():
        # imported here: --help must answer at once
        from image_copies.pipeline.tools.pooling_exponent import ExponentSearch, choose_exponent

        how = ExponentSearch(
            method=arguments.method,
            exponents=tuple(arguments.exponents),
            images=arguments.images,
            learning_rate=arguments.learning_rate,
            seed=arguments.seed,
            workers=arguments.workers,
        )
        choose_exponent(arguments.checkpoint, how, arguments.data, arguments.sizes)
