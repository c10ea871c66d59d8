"""Paths as the command line gives them."""

import argparse
from pathlib import Path


def named_path(text: str) -> Path:
    """An option's path. An empty one is refused: it would be the current folder, and comes from an unset shell variable."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name a file or a folder ('.' is the current folder)")
    return Path(text)
