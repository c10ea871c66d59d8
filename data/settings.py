"""The base class of all settings: unknown keys are errors, instances are immutable, numbers are finite and bounded."""

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    field_validator,
)

from .remote import as_path

MAX_INTEGER = 2**40  # larger settings would neither fit on a disk nor finish
# keys that are gone, by the value that does what is done without
GONE: dict[str, Any] = {"decode_on": "cpu", "scales": [1.0], "views": True}


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


# YAML takes 32 without quotes for a number
Precision = Annotated[Literal["32", "bf16", "16"], BeforeValidator(_as_text)]
Place = Annotated[Path, AfterValidator(as_path)]  # here or on an object store


class Settings(BaseModel):
    """An immutable pydantic model that rejects unknown keys, NaN, infinity and integers beyond ±`MAX_INTEGER`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _check_bounds(cls, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > MAX_INTEGER:
                raise ValueError(f"at most {MAX_INTEGER:,}, got {number:,}")
        return value

    def with_defaults(self, *names: str) -> Self:
        """Return a copy in which the named fields have their defaults."""
        return self.model_copy(update={name: type(self).model_fields[name].get_default() for name in names})


Recorded = TypeVar("Recorded", bound=Settings)


def read_recorded(settings: type[Recorded], content: Any) -> Recorded:
    """Read settings from JSON values that were recorded of them, perhaps by an earlier version, which had other keys.

    Missing keys have their defaults. Keys without a place today are ignored if they were switched off (null, false or the value
    in `GONE`), and so is null where today's key takes none.

    Raises:
        ValidationError: when anything else is not valid today.
    """
    content = deepcopy(content)
    while True:
        try:
            return settings.model_validate(content)
        except ValidationError as error:
            off = [
                item["loc"] for item in error.errors() if _is_off(item["loc"], item["type"], item["input"])
            ]
            if not any(_remove(content, where) for where in off):
                raise


def _is_off(where: Sequence[int | str], problem: str, value: Any) -> bool:
    if value is None:
        return True
    return problem == "extra_forbidden" and (value is False or value == GONE.get(str(where[-1])))


def _remove(content: Any, where: Sequence[int | str]) -> bool:
    """Remove a key of nested JSON, and return whether it was there; pydantic's path to it also names kinds of settings."""
    for part in where[:-1]:
        with suppress(LookupError, TypeError):  # of the names of kinds
            content = content[part]
    if not (where and isinstance(content, dict) and where[-1] in content):
        return False
    del content[where[-1]]
    return True
