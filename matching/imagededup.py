"""The calls of imagededup's CNN class, with the descriptor that ships: a notebook written for it runs with its imports changed.

    from image_copies.matching.imagededup import CNN, plot_duplicates    # for imagededup.methods and imagededup.utils

A cosine means something else with another network. With this one, of 700 queries against 300 references, 0.9 finds 70 of 400
copies and 0.65 finds 198, both without a wrong pair; of 68 look-alikes, they call 8 and 204 pairs copies. A map of duplicates is
made of vectors alone: what it names are at best *likely* copies. `find_duplicates_to_remove(image_dir=…)` compares the pictures
themselves, as `image_copies.find_copies` does, and names what a plan would remove.
"""

import json
import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.data.images import ImageSet
from image_copies.data.sources.discovery import discover
from image_copies.data.sources.walking import known_path
from image_copies.data.targets import begins_with, check_target
from image_copies.matching.commands.interface import Place, find_copies, open_shipped
from image_copies.matching.results.grid import PictureGrid
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.backend import iterate_distances

ABSENT = ("PHash", "AHash", "DHash", "WHash", "Hashing", "CustomModel", "MobilenetV3", "ViT", "EfficientNet")
Duplicates = Mapping[str, Sequence[str | tuple[str, np.float32]]]
LISTED = {".json": begins_with(b"{", b"[")}


def __getattr__(name: str) -> Any:
    """Say what stands for the other names that notebooks import from imagededup."""
    if name not in (*ABSENT, "evaluate"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has CNN and plot_duplicates")
    instead = "image_copies.score(queries, references, ground_truth)" if name == "evaluate" else "CNN, which has the same calls,"
    more = "" if name == "evaluate" else " or image_copies.find_copies(folder), which compares the pictures themselves"
    raise ImportError(f"imagededup's {name} is not in {__name__}. Use {instead}{more}.", name=__name__)


class CNN:
    """Finds duplicates by cosines of vectors, as imagededup's class of this name does; files are not compared any further.

    Attributes:
        encoding_map: The vector of each file that was encoded last.
    """

    def __init__(self, verbose: bool = True, model_config: None = None) -> None:
        if model_config is not None:
            raise ValueError("model_config: the descriptor that ships is used; leave it out, or use `image-copies match --onnx`.")
        self.verbose = verbose
        self.encoding_map: dict[str, NDArray[np.float32]] = {}

    def encode_image(
        self, image_file: Place | None = None, image_array: NDArray[Any] | None = None
    ) -> NDArray[np.float32] | None:
        """Return the vector [1, 256] of a file, or of pixels [h, w] or [h, w, 3]; None where a file cannot be decoded.

        Pixels are numbers from 0 to 255, or floats from 0 to 1.

        Raises:
            ValueError: Neither a file nor pixels are given, or the pixels are no picture.
        """
        if image_file is not None:
            if not Path(image_file).is_file():
                raise ValueError(f"{image_file} is not a file. Give the path of a picture.")
            found = open_shipped().extract_all(ImageSet(["0"], [Path(image_file)]))
            return None if found.unreadable[0] else found.vectors
        if image_array is None:
            raise ValueError("neither image_file nor image_array is given. Give one of them.")
        pixels = _to_uint8(np.asarray(image_array))
        return open_shipped().extract_picture(pixels if pixels.ndim == 3 else np.stack([pixels] * 3, axis=2))

    def encode_images(
        self, image_dir: Place, recursive: bool = False, num_enc_workers: int = 0
    ) -> dict[str, NDArray[np.float32]]:
        """Return the vector [256] of each picture of a folder, by its path below it; what is no picture is left out.

        Args:
            image_dir: The folder.
            recursive: Whether to look into the folders below, too.
            num_enc_workers: Accepted, without effect: all cores are used.

        Raises:
            ValueError: There is no such folder.
        """
        folder = _require_folder(image_dir)
        paths = [path for path in sorted(folder.rglob("*") if recursive else folder.iterdir()) if path.is_file()]
        images = ImageSet(
            names := [str(path.relative_to(folder)) for path in paths if path.name[0] != "."], [folder / name for name in names]
        )
        encoded: dict[str, NDArray[np.float32]] = {}
        with tqdm(total=len(images), desc="encoding", unit="image", leave=False, disable=not self.verbose) as bar:
            for block in open_shipped().extract(images) if len(images) else ():
                rows = zip(names[block.first :], block.vectors, block.unreadable, strict=False)
                encoded |= {name: vector for name, vector, unreadable in rows if not unreadable}
                bar.update(len(block.vectors))
        self.encoding_map = encoded
        return encoded

    def find_duplicates(
        self,
        image_dir: Place | None = None,
        encoding_map: Mapping[str, ArrayLike] | None = None,
        min_similarity_threshold: float = 0.9,
        scores: bool = False,
        outfile: Place | None = None,
        recursive: bool = False,
        num_enc_workers: int = 0,
        num_sim_workers: int = 0,
    ) -> dict[str, list[Any]]:
        """Return for each file those whose cosine with it is at least the threshold, with the cosines if `scores` are asked for.

        By their vectors alone these are at best likely copies: look at them before you remove any.

        Args:
            image_dir: A folder of pictures, or else:
            encoding_map: The vector of each file, as `encode_images` returns them.
            min_similarity_threshold: The lowest cosine of a duplicate, from -1.0 to 1.0.
            scores: Whether to return (file, cosine) in place of each file.
            outfile: A JSON file to write the result to.
            recursive: Whether to look into the folders below `image_dir`, too.
            num_enc_workers: Accepted, without effect.
            num_sim_workers: Accepted, without effect.

        Raises:
            TypeError: The threshold is no float.
            ValueError: The threshold is out of range, or neither a folder nor vectors are given.
        """
        _check_arguments(image_dir, encoding_map, min_similarity_threshold)
        encoded = self.encode_images(image_dir, recursive) if image_dir else encoding_map or {}
        near = _find_near(encoded, min_similarity_threshold)
        found: dict[str, list[Any]] = (
            dict(near) if scores else {name: [other for other, _ in others] for name, others in near.items()}
        )
        if outfile:
            check_target(Path(outfile), "outfile", LISTED)
            write_text(Path(outfile), json.dumps(found, indent=2, sort_keys=True, default=float) + "\n")
        return found

    def find_duplicates_to_remove(
        self,
        image_dir: Place | None = None,
        encoding_map: Mapping[str, ArrayLike] | None = None,
        min_similarity_threshold: float = 0.9,
        outfile: Place | None = None,
        recursive: bool = False,
        num_enc_workers: int = 0,
        num_sim_workers: int = 0,
    ) -> list[str]:
        """Return the files to remove; nothing is removed. Arguments as above.

        Of a folder these are what `image_copies.find_copies` names `removable`, whatever the threshold: same files, and certain
        copies that have nothing that the file that stays lacks. Of vectors they are likely copies, so many that no two of the
        others are duplicates; of two the earlier name stays, whichever has more to show.

        Raises:
            TypeError: As for `find_duplicates`.
            ValueError: As for `find_duplicates`.
        """
        _check_arguments(image_dir, encoding_map, min_similarity_threshold)
        removed: dict[str, None] = {}
        if image_dir:
            removed = dict.fromkeys(_find_removable(Path(image_dir), recursive, self.verbose))
        else:
            for name, others in self.find_duplicates(None, encoding_map, min_similarity_threshold).items():
                if name not in removed:
                    removed |= dict.fromkeys(map(str, others))
        if outfile:
            check_target(Path(outfile), "outfile", LISTED)
            write_text(Path(outfile), json.dumps(list(removed), indent=2) + "\n")
        return list(removed)


def plot_duplicates(image_dir: Place, duplicate_map: Duplicates, filename: str, outfile: Place | None = None) -> PictureGrid:
    """Return a grid of a file and its duplicates, which a notebook shows; with `outfile` write it as an HTML page, too.

    Raises:
        ValueError: The file is not in the map, or has no duplicates.
    """
    found = duplicate_map.get(filename)
    if not found:
        known = "has no duplicates" if filename in duplicate_map else "is not in duplicate_map"
        raise ValueError(f"{filename} {known}. Give a file that has some.")
    named = [(each, "") if isinstance(each, str) else (each[0], f"{each[1]:.3f}") for each in found]
    pictures = [(Path(image_dir) / name, f"{name} {cosine}".rstrip()) for name, cosine in [(filename, ""), *named]]
    grid = PictureGrid([(f"{filename} and its duplicates", pictures)])
    if outfile:
        check_target(Path(outfile), "outfile", {".html": begins_with(b"<")})
        write_text(Path(outfile), grid._repr_html_())
    return grid


def _to_uint8(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels [h, w] or [h, w, 3] as uint8: floats of at most 1 are shares of white, all others levels from 0 to 255.

    Raises:
        ValueError: They have another shape or type, or values out of range.
    """
    if pixels.ndim not in (2, 3) or 0 in pixels.shape or pixels.shape[2:] not in ((), (3,)):
        raise ValueError(f"image_array has the shape {pixels.shape}; give [h, w] or [h, w, 3].")
    if pixels.dtype.kind not in "uif" or not (pixels.min() >= 0 and pixels.max() <= 255):
        raise ValueError(f"image_array is not a picture: give numbers from 0 to 255, or from 0 to 1, not {reprlib.repr(pixels)}.")
    return (pixels * 255 if pixels.dtype.kind == "f" and pixels.max() <= 1 else pixels).round().astype(np.uint8)


def _require_folder(place: Place) -> Path:
    if not Path(place).is_dir():
        raise ValueError(f"{place} is not a folder. Give a folder of pictures.")
    return Path(place)


def _check_arguments(image_dir: Place | None, encoding_map: Mapping[str, ArrayLike] | None, threshold: float) -> None:
    if not isinstance(threshold, float):
        raise TypeError(f"min_similarity_threshold is {threshold!r}; give a float from -1.0 to 1.0.")
    if not -1 <= threshold <= 1:
        raise ValueError(f"min_similarity_threshold is {threshold}; give a float from -1.0 to 1.0.")
    if not image_dir and not encoding_map:
        raise ValueError("neither image_dir nor encoding_map is given, or it is empty. Give one of them.")


def _find_removable(place: Place, recursive: bool, verbose: bool) -> list[str]:
    """Return the names below a folder of the pictures that a plan would remove."""
    folder = known_path(_require_folder(place))
    found = list[Path]()
    with suppress(UserError):  # there is no picture
        found = discover([folder]).paths
    paths = [path for path in found if path.is_file() and (recursive or path.parent == folder)]
    groups = find_copies(paths, progress=verbose) if paths else []
    return sorted(str(path.relative_to(folder)) for group in groups for path in group.removable)


def _find_near(encoded: Mapping[str, ArrayLike], least: float) -> dict[str, list[tuple[str, np.float32]]]:
    """Return for each name the others whose cosine is at least `least`, in the order of the names."""
    names: Sequence[str] = list(encoded)
    if not names:
        return {}
    vectors = scale_to_unit_length(np.stack([np.asarray(vector, np.float32).ravel() for vector in encoded.values()]))
    found: dict[str, list[tuple[str, np.float32]]] = {name: [] for name in names}
    for first, away in iterate_distances(vectors, vectors, "cosine"):
        away[np.arange(len(away)), np.arange(first, first + len(away))] = 2  # a file is no duplicate of itself
        for row, column in np.argwhere(away <= -least).tolist():
            found[names[first + row]].append((names[column], -away[row, column]))
    return found
