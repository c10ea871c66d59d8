"""Templates of the project's pages: everything that is put into them is escaped."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def number(value: float, form: str = ".3f") -> str:
    """The number as the charts write it, with a minus sign that no line breaks after."""
    return format(value, form).replace("-", "−")


def render(template: str, **values: object) -> str:
    """The page that `templates/<template>` makes of the values."""
    loader = PackageLoader("submissions.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = number
    return environment.get_template(template).render(**values)
