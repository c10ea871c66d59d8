"""What the submission must beat: baselines, models and the chosen variant, all on the synthetic queries (step 03, second part).

No query or reference is looked at, so that data without ground truth are warned of, too: step 06 prints table and warnings for
them as well (run_warnings.py).
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.files import whole_file
from data.images import ImageSet, find_images
from models.inference.embed import embed_images
from models.network.checkpoint import Checkpoint
from models.network.handmade import IMAGE_SIZE
from models.network.settings import HandmadeKind, HandmadeSettings
from models.settings import EmbeddingSettings, HandmadeModelSettings
from models.training.handmade import fit_handmade
from pipeline.run.run import Run
from pipeline.run.training_roles import TrainingRoles, assign_training_roles
from pipeline.steps.ensemble import open_joined, project_candidates, synthetic_truths
from pipeline.steps.gpu_search import search_on_gpu
from pipeline.steps.run_warnings import BASELINE, MODEL, SUBMITTED, find_warnings
from submissions.ensemble.selection import MEAN, SCORE_COLUMNS, choose_variant, score_synthetic
from submissions.ensemble.variant import read_choice
from submissions.vectors.concatenated import open_concatenated
from submissions.vectors.files import Vectors, read_vectors

FLOORS: dict[HandmadeKind, str] = {"pixels": "whitened grey pixels", "gabor": "Gabor energies"}
DIMENSIONS, MOST_IMAGES = 256, 4096  # of a baseline; training images that its whitening is fitted on


@search_on_gpu()
def write_synthetic_board(run: Run) -> None:
    """Score everything on the synthetic queries, write the table and print its warnings."""
    truth, left_out = synthetic_truths(run)
    rows = [
        {"kind": kind, "name": name} | score_synthetic(queries, references, truth, left_out)
        for kind, name, queries, references in _competitors(run, assign_training_roles(run))
    ]
    rows.append({"kind": SUBMITTED, "name": SUBMITTED} | _score_of_choice(run))
    with whole_file(run.paths.synthetic_board) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    for warning in find_warnings(pd.DataFrame(rows)):
        print(f"  warning: {warning}")
    if not run.recipe.baselines:
        print(f"  {' and '.join(FLOORS.values())} are not scored (baselines: false): a submission below them is not warned of")


def _competitors(run: Run, roles: TrainingRoles) -> Iterator[tuple[str, str, Vectors, Vectors]]:
    """Kind, name, synthetic queries and the images that they are searched in, of every baseline and model."""
    handmade = {model.kind for model in run.recipe.models.values() if isinstance(model, HandmadeModelSettings)}
    if run.recipe.baselines:
        for floor, name in FLOORS.items():
            if floor not in handmade and len(roles.classes) > 2:
                yield BASELINE, name, *_embed_baseline(run, roles, floor)
    for name, model in run.recipe.models.items():
        kind = BASELINE if isinstance(model, HandmadeModelSettings) else MODEL
        training = open_concatenated([run.paths.embeddings(name, "training")])
        rows = np.sort(training.rows_of(roles.references.ids))
        references = Vectors([training.ids[row] for row in rows], training.rows(rows), training.unreadable[rows])
        yield kind, name, read_vectors(run.paths.embeddings(name, "synthetic")), references


def _embed_baseline(run: Run, roles: TrainingRoles, kind: HandmadeKind) -> tuple[Vectors, Vectors]:
    images = roles.classes.select(roles.classes.ids[:MOST_IMAGES])
    settings = EmbeddingSettings(workers=run.recipe.embedding.workers)
    descriptor, _ = fit_handmade(HandmadeSettings(kind=kind, dimensions=DIMENSIONS), images, settings.workers)

    def embed(part: ImageSet) -> Vectors:
        blocks = list(embed_images(Checkpoint(descriptor, IMAGE_SIZE, {}), part, settings))
        vectors: NDArray[np.float32] = np.concatenate([block.vectors for block in blocks])
        return Vectors(part.ids, vectors, np.concatenate([block.unreadable for block in blocks]))

    return embed(find_images(run.paths.query_images)), embed(roles.references)


def _score_of_choice(run: Run) -> dict[str, float]:
    """As the table of candidates has it; measured where the recipe left nothing to choose."""
    variant, table = read_choice(run.paths.choice)
    if np.isnan(table.iloc[0][MEAN]):
        recipe, (truth, left_out) = run.recipe, synthetic_truths(run)
        candidates = project_candidates(
            run, open_joined(run, "training"), assign_training_roles(run), variant.dimensions, variant.weights
        )
        table = choose_variant(candidates, truth, recipe.ensemble, recipe.normalization, variant.weights, left_out)[1]
    return {str(name): float(value) for name, value in table.iloc[0].items() if name in SCORE_COLUMNS}
