"""The base class of all settings: unknown keys are errors, instances are immutable, numbers are finite and bounded."""

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

MAX_INTEGER = 2**40  # larger settings would neither fit on a disk nor finish


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
