"""Reading what an earlier version recorded of settings."""

from typing import Any

import pytest
from pydantic import Field, ValidationError

from image_copies.data.settings import Precision, Settings, read_recorded


class Inner(Settings):
    depth: int = 1
    limit: float | None = Field(2.0, gt=0)
    precision: Precision = "32"


class Outer(Settings):
    name: str
    fast: bool = False
    inner: Inner = Inner()
    parts: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("recorded", "settings"),
    [
        ({"name": "a"}, Outer(name="a")),
        ({"name": "a", "fast": None, "inner": {"depth": None}}, Outer(name="a")),  # null stood for the default
        ({"name": "a", "inner": {"limit": None}}, Outer(name="a", inner=Inner(limit=None))),  # a value of today's
        ({"name": "a", "gone": None, "parts": [{"depth": 2, "off": False}]}, Outer(name="a", parts=(Inner(depth=2),))),
        ({"name": "a", "inner": {"precision": 16}}, Outer(name="a", inner=Inner(precision="16"))),  # without quotes in YAML
        ({"name": "a", "decode_on": "cpu", "views": True, "inner": {"decode_on": "cpu"}}, Outer(name="a")),  # a key that is gone
    ],
)
def test_what_an_earlier_version_recorded_is_completed(recorded: dict[str, Any], settings: Outer) -> None:
    before = repr(recorded)
    assert read_recorded(Outer, recorded) == settings
    assert repr(recorded) == before


@pytest.mark.parametrize(
    ("recorded", "where"),
    [
        ({}, ("name",)),
        ({"name": None}, ("name",)),
        ({"name": "a", "gone": 0.5}, ("gone",)),
        ({"name": "a", "decode_on": "device"}, ("decode_on",)),
        ({"name": "a", "inner": {"depth": "deep"}}, ("inner", "depth")),
        ({"name": "a", "parts": [None]}, ("parts", 0)),
        (None, ()),
        ([None], ()),
    ],
)
def test_what_is_not_valid_any_more_is_refused(recorded: Any, where: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        read_recorded(Outer, recorded)
    assert caught.value.errors()[0]["loc"] == where
