"""The base of every room's settings: unknown keys are errors, values don't change after reading."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A pydantic model that forbids unknown keys and cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
