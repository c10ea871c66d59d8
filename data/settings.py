"""The base of every room's settings: unknown keys are errors, values don't change after reading, numbers are finite and sane."""

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

LARGEST = 2**40  # of whole numbers: more of anything neither fits a disk nor ends


class Settings(BaseModel):
    """A pydantic model that forbids unknown keys, NaN, infinity and absurdly large whole numbers, and cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _sane(cls, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > LARGEST:
                raise ValueError(f"at most {LARGEST:,}")
        return value
