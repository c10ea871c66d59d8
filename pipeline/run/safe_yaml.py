"""Safe YAML: untrusted documents with excessive nesting or aliases are rejected before they are built."""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

MAX_FILE_BYTES = 2**20
MAX_DEPTH, MAX_VALUES = 50, 100_000  # a value counts once for each alias that repeats it


def read_yaml(path: Path) -> Any:
    """Read a YAML document of plain values.

    Raises:
        yaml.YAMLError: when the document is not YAML, repeats a key or exceeds the bounds.
        ValueError: when it is not UTF-8, or holds an impossible number or date.
    """
    with path.open("rb") as file:
        text = file.read(MAX_FILE_BYTES + 1).decode("utf-8")
    if len(text) > MAX_FILE_BYTES:
        raise yaml.YAMLError(f"it is larger than {MAX_FILE_BYTES // 2**10} KiB")
    _check_size(yaml.parse(text, yaml.SafeLoader))
    loader = _Loader(text)  # a SafeLoader: plain values only, no Python objects
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _check_size(events: Iterator[yaml.Event]) -> None:
    """Count the values as if each alias were written out."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []  # enclosing collections: anchor, and the count before each
    size = 0
    for event in events:
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append((event.anchor, size))
            size += 1
            if isinstance(event, yaml.ScalarEvent) and event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in [anchor for anchor, _ in open_]:
                raise yaml.YAMLError(f"{event.anchor!r} contains itself\n{event.start_mark}")
            size += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = size - before
        if len(open_) > MAX_DEPTH or size > MAX_VALUES:
            bounds = f"more than {MAX_DEPTH} levels or {MAX_VALUES:,} values"
            raise yaml.YAMLError(f"it expands to {bounds}\n{event.start_mark}")


class _Loader(yaml.SafeLoader):
    """A safe loader that rejects repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is repeated", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)
