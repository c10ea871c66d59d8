"""What states a checkpoint's false alarms: vectors of synthetic queries, kept next to it (`matching/synthetic.py`)."""

import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.settings import TableSettings
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.data.layout import QUERY
from image_copies.data.sources.discovery import discover
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.synthetic import DRAWN_VIEWS, MIN_REFERENCES, SyntheticQueries, synthetic_path, write_synthetic
from image_copies.matching.threshold import choose_sample
from image_copies.matching.views import VIEWS, embed_views_of, smallest_side
from image_copies.pipeline.run.recipe import QuerySettings

QUERIES = QuerySettings(
    count=1620,
    augmentation=TableSettings(family="query", intensity=1.0, extra=True),
    left_out=("glitch", "bubble", "swirl"),
)
MIN_PICTURES = 1000


def export_synthetic(checkpoint: Path, source: Path, others: Path) -> Path:
    """Write a checkpoint's synthetic queries next to it; return where.

    One half of the pictures of `source`, which the network has not learnt from, is edited; parts of the other half are pasted.
    MIN_REFERENCES of `others`, pictures that show nothing of `source`, are what few references are compared together with.

    Raises:
        UserError: There are too few pictures, or the checkpoint cannot be used.
    """
    extractor, pictures, further = checkpoint_extractor(checkpoint), discover([source]).images(), discover([others]).images()
    if len(pictures) < MIN_PICTURES or len(further) < MIN_REFERENCES or extractor.dimensions % 2:
        raise UserError(
            f"synthetic queries need at least {MIN_PICTURES} pictures, {MIN_REFERENCES} others, and vectors of an even number of "
            f"dimensions, but there are {len(pictures)}, {len(further)} and {extractor.dimensions}. Name more pictures."
        )
    rng = np.random.default_rng(0)
    edited, pasted = (
        pictures.select([pictures.ids[row] for row in sorted(rows)]) for rows in np.array_split(rng.permutation(len(pictures)), 2)
    )
    kept = further.select([further.ids[row] for row in choose_sample(len(further), MIN_REFERENCES)])
    with tempfile.TemporaryDirectory() as place:
        make_query_set(
            references=edited,
            distractors=edited,
            overlays=pasted,
            settings=QUERIES.learnt_edits,
            seed=0,
            count=QUERIES.count,
            copies=0,
            folder=Path(place) / "made",
            left_out=QUERIES.left_out_edits,
        )
        queries = find_images(Path(place) / "made" / QUERY)
        whole, views = extractor.extract_all(queries), []
        for path in tqdm(queries.paths, desc="embedding views", unit="image", leave=False):
            drawn = rng.choice(VIEWS, DRAWN_VIEWS, replace=False)
            views.append(embed_views_of(extractor, decode_rgb(path, short_side=smallest_side(extractor)))[drawn])
    normalized = extractor.normalize(np.concatenate(views)).reshape(len(views), DRAWN_VIEWS, -1)
    references = extractor.extract_all(kept).readable()
    write_synthetic(checkpoint, SyntheticQueries(extractor.normalize(whole.vectors), normalized, references))
    return synthetic_path(checkpoint)
