"""The file without its graph is known to the byte; what is no checkpoint with a graph of its own is never taken for one."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from image_copies.models.network.stored_graph import (
    GRAPH,
    METADATA,
    digest_checkpoint,
    read_float_tensors,
    read_graph,
    write_graph,
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.safetensors"
    save_file({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.float16)}, path, {"description": 'é\n"{}'})
    return path


def write(path: Path, header: object, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@settings(deadline=None, max_examples=20)
@given(first=st.binary(), second=st.binary(min_size=1))
def test_a_graph_comes_and_goes(tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes) -> None:
    path = tmp_path_factory.mktemp("graph") / "a.safetensors"
    save_file({"a": np.arange(6, dtype=np.float32).reshape(2, 3)}, path, {"description": "é\n"})
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest_checkpoint(path) == before and read_graph(path) is None
    for content in (first, second):
        write_graph(path, content, ("a",))
        held = read_graph(path)
        assert held is not None and held.content == content and held.weights["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert digest_checkpoint(path) == before and held.views is None
    write_graph(path, first, ("a",), (second, ()))
    held = read_graph(path)
    assert held is not None and held.views is not None and (held.content, held.views.content) == (first, second)
    assert list(held.weights) == ["a"] and not held.views.weights and digest_checkpoint(path) == before


def test_others_read_the_file(plain: Path) -> None:
    plain.chmod(0o640)
    write_graph(plain, b"graph", ())
    with safe_open(plain, framework="numpy") as file:
        assert file.get_tensor(GRAPH).tobytes() == b"graph" and file.metadata()["description"] == 'é\n"{}'
        assert file.get_tensor("b").tolist() == [0, 0, 0]
    assert read_float_tensors(plain).keys() == {"a"} and plain.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_one(plain: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.safetensors"
    link.symlink_to(plain)
    write_graph(link, b"graph", ("a",))
    assert link.is_symlink() and read_graph(plain) is not None


@pytest.mark.parametrize("changed", range(3))
def test_a_changed_byte_is_seen(plain: Path, changed: int) -> None:
    """Of a weight, of the last tensor, of the graph."""
    write_graph(plain, b"graph", ("a",))
    before, content = digest_checkpoint(plain), bytearray(plain.read_bytes())
    content[(-11 - 24, -11, -1)[changed]] ^= 1
    plain.write_bytes(content)
    assert read_graph(plain) is None and (digest_checkpoint(plain) == before) is (changed == 2)


@pytest.mark.parametrize(
    "header",
    [
        [],
        {GRAPH: 1},
        {GRAPH: {"data_offsets": [0, 4]}},
        {GRAPH: {"data_offsets": [0, 4]}, METADATA: [GRAPH]},
        {GRAPH: {"data_offsets": [0, 4]}, METADATA: {GRAPH: 1}},
        {GRAPH: {"data_offsets": [0, 4.0]}, METADATA: {GRAPH: "{}"}},
        {GRAPH: {"data_offsets": [0, 4]}, METADATA: {GRAPH: "{}"}},
        {GRAPH: {"data_offsets": [0, 3]}, METADATA: {GRAPH: "{}"}},
        {"a": {"data_offsets": "x"}},
        {"a": {}},
    ],
)
def test_other_files_hold_no_graph(tmp_path: Path, header: object) -> None:
    path = tmp_path / "odd.safetensors"
    write(path, header, b"data")
    assert read_graph(path) is None and digest_checkpoint(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    for content in (b"", b"abc", b"\xff" * 20, (3).to_bytes(8, "little") + b"{{{"):
        path.write_bytes(content)
        assert read_graph(path) is None and digest_checkpoint(path) == hashlib.sha256(content).hexdigest()
    with pytest.raises(OSError, match="none"):
        digest_checkpoint(tmp_path / "none")


def test_notes_of_weights_that_are_not_there(plain: Path) -> None:
    write_graph(plain, b"graph", ("a", "b"))
    assert read_graph(plain) is None  # b is in half precision
