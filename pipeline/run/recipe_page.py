"""`docs/recipe.md`: every key of a recipe with its default and its meaning, as the settings have them.

python -m image_copies.pipeline.run.recipe_page > docs/recipe.md
"""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from image_copies.data.settings import Settings
from image_copies.pipeline.run.recipe import Recipe

HEAD = """# Recipe keys

A recipe is one YAML file (`recipes/` has examples); a key that is left out has its default. Generated from the settings with
`python -m image_copies.pipeline.run.recipe_page > docs/recipe.md`.
"""


def make_page() -> str:
    """Return the page in Markdown: a section for each group of keys."""
    places = dict[type[Settings], str]()
    _find_places(Recipe, "", places)
    sections = [HEAD]
    for settings, place in places.items():
        summary = inspect.cleandoc(settings.__doc__ or "").partition("Attributes:")[0].strip()
        rows = list(_make_rows(settings, places))
        table = ["", "| key | default | meaning |", "|---|---|---|", *rows] if rows else []
        sections.append("\n".join([f"## {place}\n" if place else "", " ".join(summary.split()), *table, ""]).lstrip("\n"))
    return "\n".join(sections)


def _find_places(settings: type[Settings], place: str, places: dict[type[Settings], str], kinds: str = "") -> None:
    """Add where the settings stand in a recipe, and where those within them do; the first place counts."""
    places[settings] = place + kinds
    for key, field in settings.model_fields.items():
        found = list(find_settings(field.annotation))
        for inner in found:
            if inner not in places:
                below = f"{place}.{key}".lstrip(".") + {"dict": ".NAME", "tuple": "[]"}.get(_container(field), "")
                names = get_args(inner.model_fields["kind"].annotation) if len(found) > 1 and "kind" in inner.model_fields else ()
                _find_places(inner, below, places, f" of kind {', '.join(names)}" if names else "")


def find_settings(annotation: Any) -> Iterator[type[Settings]]:
    """Yield the classes of settings in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for part in get_args(annotation):
        yield from find_settings(part)


def _container(field: FieldInfo) -> str:
    return getattr(get_origin(field.annotation), "__name__", "")


def _make_rows(settings: type[Settings], places: dict[type[Settings], str]) -> Iterator[str]:
    meanings = _read_meanings(settings)
    for key, field in settings.model_fields.items():
        if len(get_args(field.annotation)) == 1 and key == "kind":
            continue  # in the title
        inner = next(find_settings(field.annotation), None)
        name = f"`{key}`" if inner is None else f"[`{key}`](#{_anchor(places[inner])})"
        yield f"| {name} | {_format_default(field)} | {meanings[key]}{_list_others(field.annotation, meanings[key])} |"


def _read_meanings(settings: type[Settings]) -> dict[str, str]:
    """Return the meanings by key, from the Attributes of the class and of those that it derives from."""
    meanings = dict[str, str]()
    for one in reversed(settings.__mro__):
        attributes = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")[2]
        for found in re.finditer(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
            meanings[found[1]] = re.sub(r"\bNone\b", "`null`", " ".join(found[2].split()))
    return meanings


def _format_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Settings):
        return f"`kind: {value.kind}`" if hasattr(value, "kind") else ""
    return f"`{value if isinstance(value, str) and not value.isdigit() else json.dumps(value, default=str)}`"


def _list_others(annotation: Any, meaning: str) -> str:
    """The words that a key may have as its value, unless the meaning explains them all."""
    words = next((get_args(one) for one in (annotation, *get_args(annotation)) if get_origin(one) is Literal), ())
    explained = all(f'"{word}"' in meaning for word in words)
    return "" if explained else f" One of {', '.join(f'`{word}`' for word in words)}."


def _anchor(title: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    print(make_page(), end="")
