"""A page on this machine that shows what a run makes of an image: drop or pick one, edit it, see the nearest references.

explore.py                    the latest run, at http://127.0.0.1:8765
explore.py --run DIR --port 9000
explore.py --references DIR   any pictures, without a run: with the descriptor that ships with the project
"""

import argparse

from pipeline.run.cli import add_data_option, named_path, report_errors


def make_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group()
    source.add_argument("--references", type=named_path, metavar="DIR", help="search these pictures, without a run")
    source.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    options.add_argument("--port", type=int, default=8765, help="of 127.0.0.1; default 8765")
    options.add_argument("--false-alarms", type=float, default=0.001, metavar="RATE", help="per query; default 0.001")
    add_data_option(options)
    return options


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        # imported here: --help must answer at once
        from pipeline.tools.explorer.serving import explore

        explore(arguments.run, arguments.data, arguments.port, arguments.false_alarms, arguments.references)
