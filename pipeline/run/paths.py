"""Paths of all files in a run folder; no other module spells their names."""

from dataclasses import dataclass
from pathlib import Path

from image_copies.data.layout import GROUND_TRUTH, QUERY, QUERY_RECORDS
from image_copies.models.training.files import CURVE, stage_checkpoint

SETS = ("training", "reference", "query", "synthetic")  # the sets of images that every model embeds

_MAKERS = {
    "queries": "00_augment",
    "contact_sheets": "00_augment",
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


@dataclass(frozen=True)
class RunPaths:
    """The files and folders of a run, whose folder need not exist."""

    folder: Path

    @property
    def description(self) -> Path:
        """Which data set the run works on, and at which scale (JSON)."""
        return self.folder / "run.json"

    @property
    def recipe(self) -> Path:
        """The run's own copy of its recipe (YAML)."""
        return self.folder / "recipe.yaml"

    @property
    def manifests(self) -> Path:
        """Folder of one manifest per product of a step."""
        return self.folder / "manifests"

    @property
    def cache(self) -> Path:
        """Folder of resized training images."""
        return self.folder / "cache"

    @property
    def queries(self) -> Path:
        """Folder of the synthetic query set."""
        return self.folder / "queries"

    @property
    def query_images(self) -> Path:
        """Folder of the synthetic queries' images."""
        return self.queries / QUERY

    @property
    def query_ground_truth(self) -> Path:
        """Ground truth of the synthetic queries (CSV)."""
        return self.queries / GROUND_TRUTH

    @property
    def query_records(self) -> Path:
        """The source image and the edits of each synthetic query (JSON lines)."""
        return self.queries / QUERY_RECORDS

    @property
    def contact_sheets(self) -> Path:
        """Folder of the edits' contact sheets."""
        return self.folder / "contact_sheets"

    @property
    def contact_sheet_of_edits(self) -> Path:
        """Contact sheet of every edit at three intensities (JPEG)."""
        return self.contact_sheets / "edits.jpg"

    @property
    def contact_sheet_of_compositions(self) -> Path:
        """Contact sheet of random compositions of edits at four intensities (JPEG)."""
        return self.contact_sheets / "compositions.jpg"

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

    @property
    def ensemble(self) -> Path:
        """Folder of the ensemble's vectors, projection and choice."""
        return self.folder / "ensemble"

    def projected(self, part: str) -> Path:
        """The concatenated and projected vectors of one of the SETS (HDF5)."""
        return self.ensemble / f"{part}.h5"

    @property
    def projection(self) -> Path:
        """The fitted PCA (HDF5)."""
        return self.ensemble / "projection.h5"

    @property
    def choice(self) -> Path:
        """Table of all candidate variants, the chosen one first (CSV)."""
        return self.ensemble / "choice.csv"

    @property
    def synthetic_board(self) -> Path:
        """Baselines, models and the chosen variant on the synthetic queries (CSV)."""
        return self.ensemble / "synthetic_board.csv"

    @property
    def normalized_queries(self) -> Path:
        """The queries' vectors after query normalisation (HDF5)."""
        return self.folder / "normalized" / "query.h5"

    @property
    def submission(self) -> Path:
        """The descriptor submission (HDF5)."""
        return self.folder / "submission.h5"

    @property
    def matches(self) -> Path:
        """The matching track's pairs (CSV)."""
        return self.folder / "matches.csv"

    @property
    def scores(self) -> Path:
        """Scores of the submission and of every variant (JSON)."""
        return self.folder / "scores.json"

    @property
    def details(self) -> Path:
        """Folder of the precision-recall curve and the tables of recall by edit."""
        return self.folder / "details"

    @property
    def report(self) -> Path:
        """Folder of the report."""
        return self.folder / "report"

    @property
    def report_page(self) -> Path:
        """The report's page (HTML)."""
        return self.report / "index.html"

    def comparison(self, other: str) -> Path:
        """Folder of the page that compares this run with a run or file named `other`."""
        return self.folder / "compare" / other

    def manifest(self, label: str) -> Path:
        """The manifest of a product with this label (see `Step.label`; JSON)."""
        return self.manifests / f"{label.replace(' ', '-')}.json"

    def maker(self, path: Path) -> str:
        """Return the name of the step that makes a file of this run.

        Raises:
            KeyError: when no step makes it.
        """
        return _MAKERS[path.relative_to(self.folder).parts[0]]
