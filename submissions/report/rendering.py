"""Jinja templates of the project's pages, with autoescaping of every value."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def format_number(value: float, form: str = ".3f") -> str:
    """Format a number with a true minus sign, as the charts do; a line does not break after it."""
    return format(value, form).replace("-", "−")


def render(template: str, **values: object) -> str:
    """Render `templates/<template>` with the given values; a missing value is an error."""
    loader = PackageLoader("submissions.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = format_number
    return environment.get_template(template).render(**values)
