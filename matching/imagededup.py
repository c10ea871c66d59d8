"""The three calls that notebooks make of imagededup, with the descriptor that ships: only their imports change.

    from image_copies.matching.imagededup import CNN, plot_duplicates    # for imagededup.methods and imagededup.utils

A cosine means something else with another network. With this one, of 700 queries against 300 references, 0.9 finds 70 of 400
copies and 0.65 finds 198, both without a wrong pair; of 68 look-alikes, they call 8 and 204 pairs copies. A map of duplicates is
made of vectors alone: what it names are at best *likely* copies. `image_copies.find_copies` compares the pictures themselves, and
names what can be removed.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from image_copies.data.arrays import Float32s
from image_copies.data.images import ImageSet
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.neighbours import Neighbours

from .commands.interface import Place, open_shipped
from .show.overlays import PictureGrid

ROUNDING = 1e-6  # of squared distances: vectors of float32 are not of unit length to the last bit
Duplicates = Mapping[str, Sequence[str | tuple[str, np.float32]]]


class CNN:
    """Finds duplicates by cosines of vectors, as imagededup's class of this name does; files are not compared any further."""

    def __init__(self, verbose: bool = True) -> None:
        self.verbose = verbose

    def encode_images(self, image_dir: Place, recursive: bool = False) -> dict[str, Float32s]:
        """Return the vector [256] of each picture of a folder, by its path below it; what is no picture is left out.

        Raises:
            ValueError: There is no such folder.
        """
        folder = Path(image_dir)
        if not folder.is_dir():
            raise ValueError(f"{image_dir} is not a folder. Give a folder of pictures.")
        found = folder.rglob("*") if recursive else folder.iterdir()
        paths = sorted(path for path in found if path.is_file() and not path.name.startswith("."))
        names = [str(path.relative_to(folder)) for path in paths]
        if not names:
            return {}
        with tqdm(
            total=len(names), desc="encoding", unit="image", leave=False, disable=not self.verbose
        ) as bar:
            encoded = open_shipped(None).extract_all(ImageSet(names, paths), bar.update)
        readable = ~encoded.unreadable
        return dict(zip(compress(names, readable), encoded.vectors[readable], strict=True))

    def find_duplicates(
        self,
        image_dir: Place | None = None,
        encoding_map: Mapping[str, ArrayLike] | None = None,
        min_similarity_threshold: float = 0.9,
        scores: bool = False,
    ) -> dict[str, list[Any]]:
        """Return for each file those whose cosine with it is at least the threshold, with the cosines if `scores` are asked for.

        By their vectors alone these are at best likely copies: look at them before you remove any.

        Args:
            image_dir: A folder of pictures, or else:
            encoding_map: The vector of each file, as `encode_images` returns them.
            min_similarity_threshold: The lowest cosine of a duplicate, from -1.0 to 1.0.
            scores: Whether to return (file, cosine) in place of each file.

        Raises:
            ValueError: The threshold is out of range, or neither a folder nor vectors are given.
        """
        if not -1 <= min_similarity_threshold <= 1:
            raise ValueError(
                f"min_similarity_threshold is {min_similarity_threshold}; give a number from -1.0 to 1.0."
            )
        encoded = self.encode_images(image_dir) if image_dir else encoding_map
        if encoded is None:
            raise ValueError("neither image_dir nor encoding_map is given. Give one of them.")
        near = _find_near(encoded, min_similarity_threshold)
        if scores:
            return dict(near)
        return {name: [other for other, _ in others] for name, others in near.items()}


def plot_duplicates(image_dir: Place, duplicate_map: Duplicates, filename: str) -> PictureGrid:
    """Return a grid of a file and its duplicates, which a notebook shows.

    Raises:
        ValueError: The file is not in the map, or has no duplicates.
    """
    found = duplicate_map.get(filename)
    if not found:
        known = "has no duplicates" if filename in duplicate_map else "is not in duplicate_map"
        raise ValueError(f"{filename} {known}. Give a file that has some.")
    pictures = [(Path(image_dir) / filename, filename)]
    for each in found:
        name, cosine = (each, "") if isinstance(each, str) else (each[0], f" {each[1]:.3f}")
        pictures.append((Path(image_dir) / name, f"{name}{cosine}"))
    return PictureGrid([(f"{filename} and its duplicates", pictures)])


def _find_near(encoded: Mapping[str, ArrayLike], least: float) -> dict[str, list[tuple[str, np.float32]]]:
    """Return for each name the others whose cosine is at least `least`, in the order of the names."""
    names = list(encoded)
    found: dict[str, list[tuple[str, np.float32]]] = {name: [] for name in names}
    if names:
        rows = [np.asarray(vector, np.float32).ravel() for vector in encoded.values()]
        vectors = scale_to_unit_length(np.stack(rows))
        pairs = Neighbours(vectors).within(vectors, 2 - 2 * least + ROUNDING)
        cosines = (1 - pairs.distances / 2).astype(np.float32)
        for one, other, cosine in zip(pairs.queries, pairs.references, cosines, strict=True):
            if one != other:  # a file is no duplicate of itself
                found[names[one]].append((names[other], cosine))
    return found
