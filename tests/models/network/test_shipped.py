"""The descriptor that ships: it is the file that its checksum names, small enough, and finds an edited picture."""

import hashlib

import pytest

from image_copies.models.inference.graph import list_graphs
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.models.shipped import SHIPPED

pytestmark = pytest.mark.skipif(not SHIPPED.is_file(), reason="the project is packed without its weights")


def test_the_files_that_were_measured_bring_projection_background_and_threshold() -> None:
    lines = [line.split() for line in SHIPPED.with_suffix(".sha256").read_text().splitlines()]
    assert {name for _, name in lines} == {SHIPPED.name, *(path.name for path in list_graphs(SHIPPED))}
    for wanted, name in lines:
        assert hashlib.sha256((SHIPPED.parent / name).read_bytes()).hexdigest() == wanted
    assert SHIPPED.stat().st_size <= 20_000_000
    loaded = load_descriptor(SHIPPED)
    assert isinstance(loaded.descriptor, JoinedDescriptor) and len(loaded.descriptor.background) > 1000
    assert loaded.notes["tail"]["pairs"] > 100_000 and loaded.notes["variant"]["dimensions"] == loaded.descriptor.dimensions
