"""Templates of the project's pages: everything that is put into them is escaped."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: object) -> str:
    """The page that `templates/<template>` makes of the values."""
    loader = PackageLoader("submissions.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(template).render(**values)
