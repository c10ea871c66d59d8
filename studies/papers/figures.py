"""Figures of the papers, drawn from checkpoints and curves; none of them is measured here on the papers' own data.

figures.py exponents --checkpoint FILE --classes DIR --holidays DIR --plot F.png     MultiGrain, figures 4a, 4b: p* by size
figures.py channels --checkpoint FILE --images A B [--channel N] --plot F.png        MultiGrain, figure 3: a channel at p 1 and 3
figures.py curves CURVE.csv … --columns watched_top1 --plot F.png                    MultiGrain, figures A.1 and D.1, by epoch
figures.py spread --run DIR --set cub --root DIR --plot F.png                        SVMax, figure A9: s by batch size
figures.py nearest --checkpoint FILE --set cub --root DIR --page F.html              SVMax, figure A2: queries and their nearest
figures.py domains --recipe FILE --set cars --root DIR --output DIR --plot F.png     IDEAL, figure 2: R@1 of each domain by epoch

A curve's watched columns come from `watch: DIR` of a recipe. --set is cub, cars, online_products or class_folders, of which every
second class is taken for testing.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # whose file of measurements the claims' modules need
from drawn.channels import draw_channels
from drawn.curves import draw_curves, draw_domains
from drawn.exponents import draw_exponents
from drawn.nearest import write_nearest
from drawn.sets import SETS
from drawn.spread import draw_spread

from image_copies.pipeline.run.cli import report_errors


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    figures = parser.add_subparsers(dest="figure", required=True)
    exponents, channels, curves, spread, nearest, domains = (
        figures.add_parser(name) for name in ("exponents", "channels", "curves", "spread", "nearest", "domains")
    )
    for figure in (exponents, channels, nearest):
        figure.add_argument("--checkpoint", type=Path, metavar="FILE", required=True)
    for figure in (exponents, channels, curves, spread, domains):
        figure.add_argument("--plot", type=Path, metavar="FILE.png", required=True)
    for figure in (spread, nearest, domains):
        figure.add_argument("--set", choices=SETS, default="class_folders")
        figure.add_argument("--root", type=Path, metavar="DIR", required=True)
    exponents.add_argument("--classes", type=Path, metavar="DIR", help="class folders: top-1, or R@1 without a classifier")
    exponents.add_argument("--holidays", type=Path, metavar="DIR", help="INRIA Holidays: mAP")
    exponents.add_argument("--sizes", type=int, nargs="+", default=[224, 320, 500, 800])
    exponents.add_argument("--exponents", type=float, nargs="+", default=[1, 2, 3, 4, 5, 7, 10])
    channels.add_argument("--images", type=Path, nargs="+", required=True)
    channels.add_argument("--channel", type=int, help="default: the one whose GeM differs most between the first two images")
    channels.add_argument("--sizes", type=int, nargs="+", default=[224, 500])
    channels.add_argument("--exponents", type=float, nargs="+", default=[1, 3])
    curves.add_argument("curves", type=Path, nargs="+", metavar="CURVE.csv")
    curves.add_argument("--columns", nargs="+", default=["watched_top1"])
    spread.add_argument("--run", type=Path, metavar="DIR", required=True)
    nearest.add_argument("--page", type=Path, metavar="FILE.html", required=True)
    nearest.add_argument("--queries", type=int, default=24)
    domains.add_argument("--recipe", type=Path, metavar="FILE", required=True)
    domains.add_argument("--output", type=Path, metavar="DIR", required=True, help="where the trainings are kept; they resume")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and draw the figure."""
    options = vars(make_parser().parse_args(arguments))
    draw: dict[str, Callable[..., None]] = {
        "exponents": draw_exponents,
        "channels": draw_channels,
        "curves": draw_curves,
        "spread": draw_spread,
        "nearest": write_nearest,
        "domains": draw_domains,
    }
    draw[options.pop("figure")](**{"data_set" if name == "set" else name: value for name, value in options.items()})


if __name__ == "__main__":
    with report_errors():
        main()
