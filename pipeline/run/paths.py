"""Paths of all files in a run folder; no other module spells their names."""

from pathlib import Path

from image_copies.data.layout import GROUND_TRUTH, QUERY, QUERY_RECORDS
from image_copies.models.training.curve import CURVE, stage_checkpoint

SETS = ("training", "reference", "query", "synthetic")  # the sets of images that every model embeds
RUNS = Path("runs")

_MAKERS = {
    "queries": "00_augment",
    "models": "01_train",
    "embeddings": "02_embed",
    "ensemble": "03_ensemble",
    "normalized": "04_normalize",
    "submission.h5": "05_submit",
    "matches.csv": "05_submit",
    "scores.json": "06_score",
    "details": "06_score",
    "report": "06_score",
}


class RunPaths:
    """The files and folders of a run, whose folder need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.description = folder / "run.json"  # which data set the run works on, and at which scale
        self.recipe = folder / "recipe.yaml"  # the run's own copy
        self.manifests = folder / "manifests"  # one for each product of a step
        self.cache = folder / "cache"  # resized training images
        self.queries = folder / "queries"  # the synthetic ones
        self.query_images = self.queries / QUERY
        self.query_ground_truth = self.queries / GROUND_TRUTH
        # the source image and the edits of each, as JSON lines
        self.query_records = self.queries / QUERY_RECORDS
        self.ensemble = folder / "ensemble"  # its vectors, projection and choice
        self.projection = self.ensemble / "projection.h5"  # the fitted PCA
        self.choice = self.ensemble / "choice.csv"  # all candidate variants, the chosen one first
        self.normalized_queries = folder / "normalized" / "query.h5"  # vectors after query normalisation
        self.submission = folder / "submission.h5"
        self.matches = folder / "matches.csv"  # of the matching track
        self.scores = folder / "scores.json"  # of the submission and of every variant
        self.details = folder / "details"  # the precision-recall curve and the tables of recall by edit
        self.report = folder / "report"
        self.report_page = self.report / "index.html"

    def model(self, name: str) -> Path:
        """Folder of one model's training: checkpoints, curve, state."""
        return self.folder / "models" / name

    def checkpoint(self, name: str, stage: int) -> Path:
        """A model's weights after drip stage `stage`, counted from 1."""
        return stage_checkpoint(self.model(name), stage)

    def curve(self, name: str) -> Path:
        """A model's learning curve (CSV)."""
        return self.model(name) / CURVE

    def embeddings(self, model: str, part: str) -> Path:
        """One model's vectors of one of the SETS (HDF5)."""
        return self.folder / "embeddings" / model / f"{part}.h5"

    def projected(self, part: str) -> Path:
        """The concatenated and projected vectors of one of the SETS (HDF5)."""
        return self.ensemble / f"{part}.h5"

    def manifest(self, label: str) -> Path:
        """The manifest of a product with this label (see `Step.label`; JSON)."""
        return self.manifests / f"{label.replace(' ', '-')}.json"

    def maker(self, path: Path) -> str:
        """Return the name of the step that makes a file of this run.

        Raises:
            KeyError: when no step makes it.
        """
        return _MAKERS[path.relative_to(self.folder).parts[0]]


def list_runs() -> list[Path]:
    """Return the folders under runs/ that are runs."""
    return [path.parent for path in RUNS.glob(f"*/{RunPaths(RUNS).description.name}")]
