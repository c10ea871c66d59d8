"""SVMax, figure A2: a page of queries with their three nearest neighbours, outlined by whether the class is the same."""

import base64
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from drawn.sets import open_view, read_set
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.files import write_text
from image_copies.models.inference.protocols import embed_view

NEAREST, SIDE = 3, 144
COLOURS = {True: "#2a7", False: "#c33"}  # of a class that is the query's, and of another one
STYLE = "body { font: 14px sans-serif } td { padding: 4px; text-align: center } img { border: 4px solid transparent }"


def write_nearest(checkpoint: Path, data_set: str, root: Path, queries: int, page: Path) -> None:
    """Write a page of so many test images, evenly over the set, each with the nearest others.

    Raises:
        UserError: The checkpoint or the data set cannot be read.
    """
    test = read_set(data_set, root).test
    vectors = embed_view(open_view(checkpoint), test.images)
    rows = []
    for query in np.linspace(0, len(test) - 1, min(queries, len(test))).round().astype(int).tolist():
        similarities = vectors @ vectors[query]
        similarities[query] = -np.inf
        found = np.argsort(-similarities, kind="stable")[:NEAREST].tolist()
        cells = [_show(test.images.paths[query], test.names[test.labels[query]], "transparent")]
        cells += [
            _show(test.images.paths[row], test.names[test.labels[row]], COLOURS[bool(test.labels[row] == test.labels[query])])
            for row in found
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<!doctype html><meta charset=utf-8><title>Nearest neighbours</title><style>{STYLE}</style>"
    legend = f"<p>{escape(str(checkpoint))}: queries, and their {NEAREST} nearest; green: the same class, red: another one.</p>"
    write_text(page, f"{head}{legend}<table>{''.join(rows)}</table>\n")


def _show(path: Path, name: str, colour: str) -> str:
    image, content = Image.fromarray(decode_rgb(path)), BytesIO()
    image.thumbnail((SIDE, SIDE))
    image.save(content, "JPEG", quality=85)
    source = base64.b64encode(content.getvalue()).decode()
    return f'<td><img src="data:image/jpeg;base64,{source}" style="border-color: {colour}" alt=""><br>{escape(name)}</td>'
