"""What a command's streams can show: characters that the terminal's encoding lacks, and bars only on a terminal."""

import io
import os
import sys


def prepare_streams() -> None:
    """Print characters that the encoding lacks as escapes, and show no bars where standard error is no terminal.

    Bars are tqdm's, which reads the variable when it is imported.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stderr is None or not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
