"""Names of files as text: a name may hold bytes that are no text, and characters that break lines."""

import os
from pathlib import Path


def text_of(path: Path | str) -> str:
    """Return a path as text that can be encoded in UTF-8; bytes that are no text become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def line_of(path: Path | str) -> str:
    """Return a path as one line of text; tabs, line breaks and other control characters become escapes, too."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text_of(path))
