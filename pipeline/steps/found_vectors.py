"""Step 02's work for a model that is vectors made elsewhere."""

from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.models.inference.settings import VectorsModelSettings
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.scoring.any_vectors import read_set
from image_copies.submissions.vectors.files import open_vectors, write_vectors


def take_vectors(model: VectorsModelSettings, part: str, ids: list[str], output: Path) -> None:
    """Write the vectors of the images of one of the SETS, in their order and of unit length, as step 02 does.

    Raises:
        UserError: when a file is missing or invalid, an image has no vector, or the dimensions are not those of the training
            vectors.
    """
    path: Path = getattr(model, part)
    if not path.is_file():
        step = " Embed queries/query_images of the run, which step 00 wrote." if part == "synthetic" else ""
        raise UserError(f"{path}: no such file. The key `{part}` of a model of kind vectors names it.{step}")
    found, dimensions = read_set(path, "reference" if part == "reference" else "query"), open_vectors(model.training).dimensions
    if found.dimensions != dimensions:
        raise UserError(
            f"{path} has vectors of {found.dimensions} dimensions, {model.training} of {dimensions}. Name files of one network."
        )
    missing = sorted(set(ids).difference(found.ids))
    if missing:
        raise UserError(
            f"{path} has no vector of {len(missing)} of the {len(ids)} {part} images, the first is {missing[0]!r}; its own first "
            f"id is {found.ids[0]!r}. Ids are the images' file names without extension."
        )
    chosen = found.rows(ids)
    write_vectors(output, ids, [scale_to_unit_length(chosen.vectors)], chosen.unreadable)
