"""Jinja templates of the project's pages, with autoescaping of every value."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def format_number(value: float, form: str = ".3f") -> str:
    """Format a number with a true minus sign, as the charts do; a line does not break after it."""
    return format(value, form).replace("-", "−")


def render(template: str | Path, **values: object) -> str:
    """Render a template of this package, or one elsewhere that may build on those, with the given values; none may be missing."""
    path = TEMPLATES / template
    environment = Environment(loader=FileSystemLoader([path.parent, TEMPLATES]), autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = format_number
    return environment.get_template(path.name).render(**values)
