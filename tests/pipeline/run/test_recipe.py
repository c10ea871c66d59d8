"""Recipes: those of the papers, and mistakes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from image_copies.augmentations.composition import list_edits
from image_copies.data.errors import UserError
from image_copies.pipeline.run.recipe import read_recipe, refuse_pca_after_whitening, scale_recipe
from image_copies.pipeline.run.run import open_run
from image_copies.pipeline.run.step import describe_state, find_changes, to_json
from image_copies.pipeline.steps.definitions import TRAIN
from image_copies.pipeline.steps.ensemble import join_models

RECIPES = Path(__file__).parents[3] / "recipes"
MINIMAL = """
models:
  small:
    descriptor: {backbone: test_efficientnet}
    stages: [{classes: 10}]
"""
# a list of 10¹² items in a few hundred bytes
BOMB = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 13))


def test_the_recipe_at_the_head_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (RECIPES.parent / "docs" / "training.md").read_text(encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    assert list(read_recipe(tmp_path / "recipe.yaml").trained_models) == ["mine"]


def test_the_papers_seven_models_keep_their_own_schedules() -> None:
    """Backbones, dimensions and last classes of the paper's table 1; the rest from the authors' repository."""
    models = read_recipe(RECIPES / "isc2021.yaml").trained_models
    written = {name: model.model_dump(mode="json", exclude_unset=True) for name, model in models.items()}
    assert len(models) == 7 and hashlib.sha256(json.dumps(written).encode()).hexdigest()[:16] == "d588da87cc59d706"


def test_the_fast_form_differs_in_batches_and_rates() -> None:
    theirs, fast = (read_recipe(RECIPES / f"{name}.yaml").trained_models for name in ("isc2021", "isc2021-batch-512"))
    for name, model in fast.items():
        for own, stage in zip(theirs[name].stages, model.stages, strict=True):
            factor = (stage.batch_size / own.batch_size) ** 0.5
            assert stage.learning_rate_factor == pytest.approx(factor, abs=0.005)
            assert stage.with_defaults("batch_size", "learning_rate_factor") == own.with_defaults("batch_size")
        assert model.descriptor == theirs[name].descriptor
        changed = {"warmup_steps": 0 if model.scheduler.kind == "warmup_cosine" else 300}
        assert model.scheduler == theirs[name].scheduler.model_copy(update=changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB + "models: {x: {kind: *a12}}\n", r"models\.x\.kind: Input should be 'gabor' \(found .{,100}\)\n"),
        (BOMB + "models: {x: {objective: {kind: *a12}}}\n", "objective: kind is a list; expected one of arcface, "),
        (
            MINIMAL + "    extra_edits: true\nqueries: {left_out: [warp, text]}\n",
            r"queries.left_out names 'text', from which the model 'small' learns: .*without_edits: \[text\]",
        ),
        (MINIMAL + "queries: {left_out: [warps]}\n", r"has 1 problem\(s\):\n  queries.left_out.0: .*'warp'.*found 'warps'\)$"),
        (MINIMAL + "queries: {left_out: []}\n", r"has 1 problem\(s\):\n  queries.left_out: .*at least 1 item"),
        (MINIMAL + "queries: {left_out: [warp, art, warp]}\n", "queries.left_out: .*name each family once"),
        (MINIMAL + "    aspect: square\n", r"models\.small\.aspect: this key is gone.*remove it from the recipe"),
        (MINIMAL + "    teacher: one.safetensors\n", r"models\.small\.teacher: this key is gone"),
        (MINIMAL + "    distillation: {weight: 40}\n", r"models\.small\.distillation: this key is gone"),
        (MINIMAL + "seeed: 1\n", r"seeed: unknown key; did you mean 'seed'"),
        (MINIMAL.replace("classes", "clases"), r"models.small.stages.0.clases: unknown key; did you mean 'classes'"),
        (MINIMAL + "ensemble: {dimensions: 300}\n", "the challenge's limit"),
        (MINIMAL + "split: {validation: 2}\n", "split.validation: Input should be less than 1"),
        (MINIMAL.replace("classes: 10", "classes: many"), r"stages.0.classes: .*found 'many'"),
        (MINIMAL + "    objective: {kind: triplet}\n", r"models.small: objective triplet compares images .* pk or repeated$"),
        (MINIMAL + "normalization: {methods: []}\n", "normalization.methods: .*at least 1"),
        (MINIMAL + "normalization: {beta1: .nan}\n", "normalization.beta1.0: .*finite"),
        (MINIMAL + "embedding: {pooling_exponent: 0}\n", "embedding.pooling_exponent: .*greater than 0"),
        (MINIMAL + "    optimizer: {learning_rate: .inf}\n", "learning_rate: .*finite"),
        (MINIMAL + "  other: {dimensions: 256, kind: []}\n", r"models\.other"),
        (MINIMAL + "split: {validation: 0.6, overlay: 0.5}\n", "split: validation 0.6 and overlay 0.5 leave no image"),
        (MINIMAL + "queries: {count: 10, copies: 20}\n", "queries: copies 20 must be at most count, 10"),
        (MINIMAL + "queries: {count: 1000000000000000}\n", "queries.count: at most"),
        (MINIMAL.replace("test_efficientnet", "test_efficientnet, dimensions: 1000000000000"), "dimensions: "),
        (MINIMAL + MINIMAL, "the key 'models' is repeated"),
        (MINIMAL + MINIMAL.replace("models:", ""), "the key 'small' is repeated"),
        ("seed: " + "1" * 5000 + "\n", "not valid YAML"),
        ("seed: 2001-99-99\n", "not valid YAML"),
        ("[" * 10_000, "not valid YAML"),
        ("a: &a [*a]\n", "a: unknown key"),
        (MINIMAL.replace("models:", "model:"), r"models: this key is required\n  model: unknown key; did you mean 'models'\?$"),
        (MINIMAL + "    objective: {margins: 0.2}\n", r"objective\.margins: unknown key; did you mean 'margin'"),
        (
            MINIMAL + "    objective: {kind: contrastiv}\n",
            r"objective: unknown kind 'contrastiv' \(did you mean 'contrastive'\?\); there are",
        ),
        (MINIMAL + "sed: 1\nsearching: {}\n", r"2 problem\(s\)"),
        ("- a\n", "must be a mapping"),
        ("a: [\n", "not valid YAML"),
    ],
)
def test_each_mistake_gets_a_message_with_key_and_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_recipe(path)
    assert "mine.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["/some/folder", "..", "../../x", "", ".", "a/b", "a\\b", "a\0", "a\n", "a b", "-a", "x" * 65, "é"]
)
def test_a_models_name_is_a_plain_one(tmp_path: Path, name: str) -> None:
    """It names folders that --force deletes."""
    path = tmp_path / "mine.yaml"
    model = {"descriptor": {"backbone": "test_efficientnet"}, "stages": [{"classes": 10}]}
    path.write_text(yaml.safe_dump({"models": {name: model}}))
    with pytest.raises(UserError, match="a model's name is used as a folder name"):
        read_recipe(path)
    path.write_text(yaml.safe_dump({"models": {"v2l-512_b.1": model}}))
    assert list(read_recipe(path).models) == ["v2l-512_b.1"]


WHITENING = """
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 64, whiten: true}
    objective: {kind: softmax}
    stages: [{classes: 10}]
ensemble: {dimensions: [16, 64], eigen_power: 0}
"""


def test_pca_after_whitening_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(WHITENING)
    with pytest.raises(UserError, match=r"'one' whitens.*keeps 16: after whitening all variances are equal.*whiten: false"):
        open_run(tmp_path / "run", tmp_path / "mine.yaml", tmp_path)
    for mended in (
        WHITENING.replace("[16, 64]", "[64]"),
        WHITENING + "embedding: {whiten: false}\n",
        WHITENING.replace("whiten: true", "whiten: false"),
    ):
        (tmp_path / "mine.yaml").write_text(mended)
        assert open_run(tmp_path / "run", tmp_path / "mine.yaml", tmp_path).recipe.models
    (tmp_path / "run" / "recipe.yaml").write_text(WHITENING)  # of an earlier version: it opens, and step 03 does not do it again
    with pytest.raises(UserError, match="PCA must come first"):
        join_models(open_run(tmp_path / "run", data=tmp_path))


def test_a_whitening_is_stale_if_images_are_embedded_at_another_size(tmp_path: Path) -> None:
    """Not what embeds in other ways, and no model without a whitening."""
    whitening = WHITENING.replace("[16, 64]", "[64]")

    def made(number: int, recipe: str) -> dict[str, Any]:
        (tmp_path / f"{number}.yaml").write_text(recipe)
        product = TRAIN.products(open_run(tmp_path / f"run{number}", tmp_path / f"{number}.yaml", tmp_path))[0]
        return describe_state({}, product.parameters)

    plain, larger = to_json(made(0, whitening)), made(1, whitening + "embedding: {image_size: 200}\n")
    assert find_changes(plain, larger, []) == ["parameter embedding of the whitening changed"]
    assert not find_changes(plain, made(2, whitening + "embedding: {flip: true}\n"), [])
    without = whitening.replace("whiten: true", "whiten: false")
    assert not find_changes(to_json(made(3, without)), made(4, without + "embedding: {image_size: 200}\n"), [])


def test_a_scaled_recipe_has_fewer_classes_and_epochs() -> None:
    recipe = read_recipe(RECIPES / "isc2021.yaml")
    small = scale_recipe(recipe, 0.001)
    stages = small.trained_models["b5-256d-large"].stages
    assert [(stage.classes, stage.extra_classes) for stage in stages[2:]] == [(150, 0), (300, 0), (600, 100), (1800, 800)]
    assert {stage.epochs for model in small.trained_models.values() for stage in model.stages} == {2}
    assert (small.queries.count, small.queries.copies) == (20, 4)
    before, after = ([model.descriptor for model in each.trained_models.values()] for each in (recipe, small))
    assert before == after
    assert scale_recipe(recipe, 1e-9).trained_models["v2l-512"].stages[0].classes == 2


def test_multigrains_variants_differ_from_it_as_the_paper_says() -> None:
    plain, average, policy = (
        read_recipe(RECIPES / f"multigrain{end}.yaml").trained_models["resnet50"] for end in ("", "-p1", "-autoaugment")
    )
    assert (plain.sampling.iterations, policy.sampling.iterations) == (5005, 7508)
    assert (plain.descriptor.pooling_exponent, average.descriptor.pooling_exponent) == (3, 1)
    assert (plain.edits, policy.edits) == ("multigrain_full", "autoaugment")
    assert plain.model_copy(update={"edits": policy.edits, "sampling": policy.sampling}) == policy
    same = {"descriptor": average.descriptor, "embedding": average.embedding}
    assert plain.model_copy(update=same) == average


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: str(path.stem))
def test_recipes_of_the_project_are_valid_bounded_by_epochs_and_reduce_before_they_whiten(path: Path) -> None:
    """So that a seed gives one result on a machine, however busy it is."""
    recipe = read_recipe(path)
    refuse_pca_after_whitening(recipe)
    assert recipe.models and all(stage.epochs < 1000 for model in recipe.trained_models.values() for stage in model.stages)


def test_left_out_families_are_drawn_in_no_half_but_their_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL + "    without_edits: [text]\nqueries: {augmentation: {intensity: 0.4}, left_out: [warp, text]}\n")
    queries = read_recipe(path).queries
    assert all(part.intensity == 0.4 for part in queries.left_out_edits)
    learnt, *others = ({row.family for row in list_edits(part)} for part in (queries.learnt_edits, *queries.left_out_edits))
    assert others == [{"warp"}, {"text"}] and learnt and not learnt & {"warp", "text"}
    path.write_text(MINIMAL)
    plain = read_recipe(path).queries
    assert plain.left_out_edits == () and dict(plain.learnt_edits).items() >= dict(plain.augmentation).items()
