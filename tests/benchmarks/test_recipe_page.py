"""The page of all keys of a recipe."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recipe_page import find_settings, make_page

from image_copies.data.settings import Settings
from image_copies.pipeline.run.recipe import Recipe, read_recipe

TOP = Path(__file__).parents[2]


WITHOUT_A_RECIPE = {
    **dict.fromkeys(("projection_bias", "mean", "std"), "published descriptors have it"),
    **dict.fromkeys(("frozen_statistics", "backbone_learning_rate"), "docs/training.md says when"),
    "templates": "the pages are the user's own: docs/training.md",
}


def list_keys(settings: type[Settings], seen: set[type[Settings]]) -> Iterator[str]:
    seen.add(settings)
    for key, field in settings.model_fields.items():
        yield key
        for inner in find_settings(field.annotation, *field.metadata):
            if inner not in seen:
                yield from list_keys(inner, seen)


def list_used(value: Any) -> Iterator[str]:
    if isinstance(value, Settings):
        for key in value.model_fields_set:
            yield key
            yield from list_used(getattr(value, key))
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        yield from list_used(part)


def test_the_page_is_that_of_the_settings_with_every_key_and_links_that_lead_somewhere() -> None:
    """Otherwise: python benchmarks/recipe_page.py."""
    assert (TOP / "docs" / "recipe.md").read_text(encoding="utf-8") == make_page()
    page = make_page()
    keys = set(list_keys(Recipe, set())) - {"kind"}
    assert keys == set(re.findall(r"^- \[?`(\w+)`", page, re.MULTILINE)) - {"kind"}
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\(#([^)]+)\)", page)) <= anchors
    assert '- `precision` (`"32"`): "32", or the mixed precision of training. One of `32`, `bf16`, `16`.' in page
    assert "- `clip_norm` (`1.0`): Maximum norm of the gradient of all parameters together; `null` for no clipping." in page
    used = {key for path in (TOP / "recipes").glob("*.yaml") for key in list_used(read_recipe(path))}
    assert set(list_keys(Recipe, set())) - used == set(WITHOUT_A_RECIPE)
