"""A recipe: one YAML file with all settings of a run, validated as a whole before any work; docs/recipe.md lists its keys."""

import difflib
import hashlib
import json
import re
import reprlib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from image_copies.augmentations.settings import AugmentationSettings, EditFamily, TableSettings
from image_copies.data.errors import UserError
from image_copies.data.kinds import OBJECTIVES, REGULARIZERS, OfKind
from image_copies.data.settings import Place, Settings
from image_copies.models.inference import settings as inference
from image_copies.models.training.model_settings import ModelSettings
from image_copies.submissions.settings import EnsembleSettings, NormalizationSettings


class _Loader(yaml.SafeLoader):
    """Reads plain values, and refuses a key that is repeated."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names = Counter(str(key.value) for key, _ in node.value)
        for key, _ in node.value:
            if names[str(key.value)] > 1 and key.value != "<<":
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is repeated", problem_mark=key.start_mark
                )
        return node


GONE = (  # keys of earlier recipes
    "aspect", "baselines", "class_rows", "clean", "distillation", "edits_on", "fresh_edits", "koleo", "last_intensity", "log_cap",
    "memory", "minutes", "procedural", "scales", "teacher", "validate_minutes", "views", "watch", "weight_average",
)  # fmt: skip
MAX_SHOWN = 100  # characters of a wrong value in a message
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _check_name(name: str) -> str:
    if not PLAIN_NAME.fullmatch(name):
        raise ValueError(
            "a model's name is used as a folder name: 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit"
        )
    return name


class SplitSettings(Settings):
    """How the training images are split into roles (docs/house.md); all others are classes.

    Attributes:
        validation: Share held out for the synthetic query set, between 0 and 1.
        overlay: Share reserved for pasting into other images, between 0 and 1.
        learn_all: Whether the images of the other roles are trained on, too; scores on the synthetic queries are then
            those of training images.
        exclude: File with the ids of training images that are not used, one a line; None to use all.
    """

    validation: float = Field(0.2, gt=0, lt=1)
    overlay: float = Field(0.05, gt=0, lt=1)
    learn_all: bool = False
    exclude: Path | None = None

    @model_validator(mode="after")
    def _something_is_left_to_learn(self) -> "SplitSettings":
        if self.validation + self.overlay >= 1:
            raise ValueError(
                f"validation {self.validation} and overlay {self.overlay} leave no image to train on: their sum must be below 1"
            )
        return self

    def shares(self) -> dict[str, float]:
        """Return the sizes of the roles: all that the synthetic queries and the choice of a variant depend on."""
        return {"validation": self.validation, "overlay": self.overlay}


class QuerySettings(Settings):
    """The synthetic query set of step 00.

    Attributes:
        count: Number of queries, at least 2.
        copies: Number of queries made from validation references, 1 … count; the others copy nothing.
        augmentation: The edits that make the queries.
        left_out: Families of edits that no model learns from; every second query also gets edits of one of them, in
            turn. Of a model's last stages of one image size the best on these queries is
            kept.
    """

    count: int = Field(600, ge=2)
    copies: int = Field(300, ge=1)
    augmentation: TableSettings = TableSettings()
    left_out: tuple[EditFamily, ...] | None = Field(None, min_length=1)

    @property
    def learnt_edits(self) -> AugmentationSettings:
        """The edits of the queries that are made with families that may be learnt."""
        return AugmentationSettings(**dict(self.augmentation), without=self.left_out)

    @property
    def left_out_edits(self) -> tuple[AugmentationSettings, ...]:
        """What every second query has besides: edits of one of these families, in rotation; () where all are made alike."""
        return tuple(
            AugmentationSettings(intensity=self.augmentation.intensity, only=(name,))
            for name in self.left_out or ()
        )

    @field_validator("left_out")
    @classmethod
    def _named_once(cls, value: tuple[EditFamily, ...] | None) -> tuple[EditFamily, ...] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError(f"{', '.join(value)}: name each family once, as they edit queries in rotation")
        return value

    @model_validator(mode="after")
    def _copies_are_queries(self) -> "QuerySettings":
        if self.copies > self.count:
            raise ValueError(
                f"copies {self.copies} must be at most count, {self.count}: copies are some of the queries"
            )
        return self


class ClassSettings(Settings):
    """Further images that join the training classes: after all others, or as the stages' own extra_classes say.

    Attributes:
        folders: Folders of images, each image a class.
    """

    folders: tuple[Place, ...] = ()


def _kind_of_model(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    if kind is None:
        return "[trained]"
    files = {"file": "[a file]", "onnx": "[an ONNX file]"}
    return files.get(kind, "[made by hand]") if isinstance(kind, str) else "[made by hand]"


AnyModel = Annotated[
    Annotated[ModelSettings, Tag("[trained]")]
    | Annotated[inference.HandmadeModelSettings, Tag("[made by hand]")]
    | Annotated[inference.FileModelSettings, Tag("[a file]")]
    | Annotated[inference.OnnxModelSettings, Tag("[an ONNX file]")],
    Discriminator(_kind_of_model),
]


class Recipe(Settings):
    """All settings of a run.

    Attributes:
        seed: Seed of every random draw, at least 0.
        split: Roles of the training images.
        extra_classes: Further images to train on.
        queries: The synthetic query set.
        models: Models by name, in the order in which their vectors are concatenated.
        side_by_side: Whether a CPU trains the models at the same time, each by one thread.
        embedding: How models embed that have no embedding settings.
        ensemble: Candidates for the PCA and the models' weights.
        normalization: Candidates for the query normalisation.
    """

    seed: int = Field(0, ge=0)
    split: SplitSettings = SplitSettings()
    extra_classes: ClassSettings = ClassSettings()
    queries: QuerySettings = QuerySettings()
    models: dict[Annotated[str, AfterValidator(_check_name)], AnyModel] = Field(min_length=1)
    side_by_side: bool = False
    embedding: inference.EmbeddingSettings = inference.EmbeddingSettings()
    ensemble: EnsembleSettings = EnsembleSettings()
    normalization: NormalizationSettings = NormalizationSettings()

    @property
    def trained_models(self) -> dict[str, ModelSettings]:
        """The models that step 01 trains, by name; without handmade ones and files."""
        return {name: model for name, model in self.models.items() if isinstance(model, ModelSettings)}

    @property
    def untrained_models(self) -> dict[str, inference.UntrainedModelSettings]:
        """The handmade models and files, by name."""
        return {
            name: model
            for name, model in self.models.items()
            if isinstance(model, inference.UntrainedModelSettings)
        }

    @property
    def networks(self) -> dict[str, ModelSettings | inference.UntrainedModelSettings]:
        """The models that have checkpoints, by name; without ONNX files."""
        return {
            name: model
            for name, model in self.models.items()
            if not isinstance(model, inference.OnnxModelSettings)
        }

    def fingerprint(self) -> str:
        """Return the hexadecimal SHA-256 of all settings that results depend on: all but the numbers of loader workers."""
        chosen = _without_workers(self.model_dump(mode="json", exclude_defaults=True))
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()

    @model_validator(mode="after")
    def _weights_of_models(self) -> "Recipe":
        unknown = [name for name in self.ensemble.weights or {} if name not in self.models]
        if unknown:
            raise ValueError(
                f"ensemble.weights names {unknown[0]!r}, which is not a model: {', '.join(self.models)}"
            )
        return self

    @model_validator(mode="after")
    def _background_of_the_only_model(self) -> "Recipe":
        for name, model in self.models.items():
            if model.background and len(self.models) > 1:
                raise ValueError(
                    f"models.{name}.background: the other models have no vectors of those images; remove `background: true`, or "
                    "the other models"
                )
        return self

    @model_validator(mode="after")
    def _left_out_of_training(self) -> "Recipe":
        if self.queries.left_out is None:
            return self
        from image_copies.augmentations.composition import (
            list_edits,  # imported here: only such recipes need the edits themselves
        )

        for name, model in self.trained_models.items():
            learnt = {row.family for stage in model.stages for row in list_edits(model.edits_of(stage))}
            if both := [family for family in self.queries.left_out if family in learnt]:
                raise ValueError(
                    f"queries.left_out names {both[0]!r}, from which the model {name!r} learns: give the model "
                    f"`without_edits: [{', '.join(both)}]`, or leave {both[0]!r} out of queries.left_out"
                )
        return self


def _without_workers(value: Any) -> Any:
    """Drop numbers of workers from nested JSON."""
    if isinstance(value, dict):
        return {key: _without_workers(item) for key, item in value.items() if key != "workers"}
    return [_without_workers(item) for item in value] if isinstance(value, list) else value


def refuse_pca_after_whitening(recipe: Recipe) -> None:
    """Check that step 03 does not reduce the dimensions of vectors that a model has whitened.

    This is not part of the recipe's validation, so that older runs can still be opened.

    Raises:
        UserError: when it would.
    """
    sizes = [model.descriptor.dimensions for model in recipe.trained_models.values()]
    joined = None if None in sizes else sum(size or 0 for size in sizes)
    fewest = min(recipe.ensemble.dimensions)
    for name, model in recipe.trained_models.items():
        embedding = model.embedding or recipe.embedding
        if model.descriptor.whiten and embedding.whiten and (joined is None or joined > fewest):
            raise UserError(
                f"the model {name!r} whitens its vectors, of which ensemble.dimensions keeps {fewest}: after whitening all "
                "variances are equal, and PCA would keep the directions that the sample underestimated. PCA must come first: "
                f"give the model `embedding: {{whiten: false}}` and whiten what is kept by `ensemble: {{eigen_power: -0.5}}`, "
                "or remove descriptor.whiten."
            )


def read_recipe(path: Path) -> Recipe:
    """Read and validate a recipe.

    Raises:
        UserError: when the file is missing, is not YAML or breaks a rule; every problem is listed with its key and, for an
            unknown key, the most similar valid one.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such recipe. The project's own recipes are in {Path(__file__).parents[2] / 'recipes'}."
        )
    try:
        content = _Loader(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # impossible numbers raise ValueError
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path} must be a mapping of keys to values, such as `seed: 0`; found {type(content).__name__}."
        )
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        problems = [
            f"  {_describe_problem(dict(item))}"
            for item in error.errors()
            if not _follows_from_others(dict(item), error)
        ]
        raise UserError(
            f"the recipe {path} has {len(problems)} problem(s):\n" + "\n".join(problems)
        ) from error


def scale_recipe(recipe: Recipe, share: float) -> Recipe:
    """Return the recipe with a share of its classes and synthetic queries, and at most 2 epochs per stage, for a quick trial."""
    models = dict(recipe.models)
    for name, model in recipe.trained_models.items():
        stages = [
            stage.model_copy(
                update={
                    "classes": stage.classes and max(2, round(share * stage.classes)),
                    "extra_classes": round(share * stage.extra_classes),
                    "epochs": min(2, stage.epochs),
                    "iterations": stage.iterations and max(1, round(share * stage.iterations)),
                }
            )
            for stage in model.stages
        ]
        models[name] = model.model_copy(update={"stages": tuple(stages)})
    queries = recipe.queries
    count = max(20, round(share * recipe.queries.count))
    copies = max(1, round(count * queries.copies / queries.count))
    return recipe.model_copy(
        update={"models": models, "queries": queries.model_copy(update={"count": count, "copies": copies})}
    )


def _follows_from_others(item: dict[str, Any], error: ValidationError) -> bool:
    """Whether pydantic finds a list too short because it does not count the items that it has complained of."""
    own = item["loc"]
    return item["type"] == "too_short" and any(
        len(other["loc"]) > len(own) and other["loc"][: len(own)] == own for other in error.errors()
    )


def _describe_problem(item: dict[str, Any]) -> str:
    where = ".".join(
        str(part) if str(part).isprintable() else repr(part)
        for part in item["loc"]
        if not str(part).startswith("[")
    )
    found = reprlib.repr(item["input"])[:MAX_SHOWN]
    # where the input is a whole section, the message itself says what was found
    if item["type"] == "value_error":
        return f"{where}: {item['ctx']['error']}" + (
            "" if isinstance(item["input"], dict) else f" (found {found})"
        )
    if item["type"] == "missing":
        return f"{where}: this key is required"
    if item["type"] != "extra_forbidden":
        return f"{where}: {item['msg']} (found {found})"
    if item["loc"][-1] in GONE:
        return f"{where}: this key is gone, as nothing was gained by it; remove it from the recipe"
    key = str(item["loc"][-1])
    # the key of another section
    nearest = difflib.get_close_matches(key, [known for known in _list_keys() if known != key], n=1)
    return f"{where}: unknown key" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def _list_keys() -> list[str]:
    schema = Recipe.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    of_kinds = (*OfKind(OBJECTIVES, "").list_settings(), *OfKind(REGULARIZERS, "").list_settings())
    found = {key for part in parts for key in part.get("properties", {})}
    return sorted(found.union(*(settings.model_fields for settings in of_kinds)))
