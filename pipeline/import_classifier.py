"""Write a classifier of timm as a checkpoint with its classifier, to choose p* for larger images (ICLR submission, appendix G).

import_classifier.py --model legacy_senet154 --output senet154     timm's weights; or --weights FILE of the same model
choose_exponent.py --checkpoint senet154/stage-1.safetensors --method sgd --sizes 450 --data TRAIN
evaluate.py --checkpoint senet154/stage-1.safetensors --set class_folders --root VAL --image-size 450 --pooling-exponent 1.6

TRAIN and VAL have a folder for each class, in the order of the model's classes by name, as ImageNet's have.
"""

import argparse
from pathlib import Path

from image_copies.pipeline.run.cli import CommandParser, named_path, report_errors


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", metavar="NAME", required=True, help="timm's name of a classifier that ends in ReLU")
    options.add_argument(
        "--weights",
        metavar="FILE",
        default="pretrained",
        help="the whole model's weights, by timm's names or efficientnet_pytorch's (default: timm's, from the network)",
    )
    options.add_argument("--output", type=named_path, metavar="DIR", required=True, help="folder for stage-1.safetensors")
    return options


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        # imported here: --help must answer at once
        from image_copies.data.targets import check_target, check_target_folder
        from image_copies.models.network.checkpoint import save_descriptor
        from image_copies.models.network.description import is_checkpoint
        from image_copies.models.network.off_the_shelf import build_off_the_shelf
        from image_copies.models.training.classifier import save_classifier
        from image_copies.models.training.files import CLASSIFIER, stage_checkpoint

        checkpoint = stage_checkpoint(arguments.output, 1)
        check_target(checkpoint, "--output", {checkpoint.suffix: is_checkpoint}, [Path(arguments.weights)])
        check_target_folder(arguments.output, "--output", [checkpoint.name], [CLASSIFIER])
        descriptor, classifier, side = build_off_the_shelf(arguments.model, arguments.weights)
        arguments.output.mkdir(parents=True, exist_ok=True)
        save_classifier(arguments.output, classifier)
        save_descriptor(checkpoint, descriptor, side, {"classifier": arguments.model})
        print(f"{checkpoint}: {arguments.model}, {classifier.out_features} classes, trained at {side} px with average pooling")
