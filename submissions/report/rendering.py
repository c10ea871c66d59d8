"""Templates of the project's pages; every value that is put into them is escaped."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def number(value: float, form: str = ".3f") -> str:
    """Format a number as the charts do, with a minus sign that no line breaks after."""
    return format(value, form).replace("-", "−")


def render(template: str, **values: object) -> str:
    """Fill the template `templates/<template>` with values."""
    loader = PackageLoader("submissions.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = number
    return environment.get_template(template).render(**values)
