"""Compare descriptors on copies, or score a checkpoint on a public data set or a folder of class folders.

evaluate.py --data DIR A B …                                   one table: µAP, recalls, intervals, differences to A, CPU ms
    Each is a checkpoint, shipped, any network as FILE.onnx or FILE.onnx@PIXELS, timm:NAME or timm:NAME=WEIGHTS, a submission
    (.h5), or vectors (.npy: a row for each query, then each reference, in the order of their ids). DIR has the ISC2021 layout,
    with public_ground_truth.csv.
evaluate.py --checkpoint FILE --set holidays --root DIR        mAP; the query itself and junk images are ignored
evaluate.py --checkpoint FILE --set copydays --root DIR        mAP of the strong copies; --distractors DIR adds images
evaluate.py --checkpoint FILE --set ukb --root DIR             UKB score, 0 … 4
evaluate.py --checkpoint FILE --set cub --root DIR             Recall@K, NMI and s of the test classes; also cars, online_products
evaluate.py --checkpoint FILE --set class_folders --root DIR   the same, and top-1 and top-5 if the model has a classifier
"""

import sys

from image_copies.data.errors import UserError
from image_copies.data.kinds import TEST_SETS
from image_copies.pipeline.run import cli

OPTIONS: cli.Table = {
    "compared": {"nargs": "*", "metavar": "DESCRIPTOR", "help": "with --data: what to compare"},
    "--data": cli.DIR | {"help": "a folder in the ISC2021 layout, with its ground truth"},
    "--checkpoint": cli.FILE | {"help": "models/<model>/stage-<n>.safetensors of a run"},
    "--set": {"choices": tuple(TEST_SETS), "help": "which data set"},
    "--root": cli.DIR | {"help": "the unpacked archive"},
    "--distractors": cli.DIR | {"help": "with copydays: further images to search in"},
    "--image-size": {"type": cli.PIXELS, "metavar": "PIXELS", "help": "default: the training size"},
    "--protocol": {"choices": ("square", "center_crop", "square_crop", "long_side")}
    | {
        "help": "square: resize to a square, ignoring the aspect ratio; center_crop: resize the short side to 256/224 of the "
        "size and crop the centre; square_crop: resize to a square of 256/224 of the size and crop the centre (IDEAL); "
        "long_side: resize the long side to the size, keeping the aspect ratio. Default, as in MultiGrain: center_crop up to the "
        "training size, long_side above"
    },
    "--pooling-exponent": {
        "type": cli.above_zero("3"),
        "metavar": "P",
        "help": "GeM's p* (default: as trained)",
    },
}


if __name__ == "__main__":
    options = cli.make_task_parser("evaluate", __doc__)
    cli.add_options(options, OPTIONS, OPTIONS)
    arguments = options.parse_args()
    with cli.report_errors():
        if (arguments.data is None) != (not arguments.compared):
            raise UserError("descriptors are compared on a folder: give both, as --data DIR A B.")
        if arguments.data is not None:
            if any((arguments.checkpoint, arguments.set, arguments.root)):
                raise UserError("--data compares descriptors: omit --checkpoint, --set and --root.")
            # imported here: --help must answer at once
            from image_copies.pipeline.tools.evaluate import compare_descriptors

            compare_descriptors(arguments.data, arguments.compared)
            sys.exit()
        if None in (arguments.checkpoint, arguments.set, arguments.root):
            raise UserError(
                "a checkpoint is scored with all three of --checkpoint FILE, --set NAME and --root DIR."
            )
        if arguments.distractors is not None and arguments.set != "copydays":
            raise UserError(
                f"--distractors can only be used with --set copydays, not with --set {arguments.set}."
            )
        # imported here: --help must answer at once
        from image_copies.pipeline.tools.evaluate import evaluate_checkpoint

        evaluate_checkpoint(
            arguments.checkpoint,
            arguments.set,
            arguments.root,
            distractors=arguments.distractors,
            image_size=arguments.image_size,
            protocol=arguments.protocol,
            pooling_exponent=arguments.pooling_exponent,
        )
