"""As the models' tests: the same random numbers for each, and pictures to learn from."""

from tests.models.conftest import _seeded, images

__all__ = ["_seeded", "images"]
