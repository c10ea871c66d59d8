"""YAML that a stranger may have written: what is nested, repeated or referred to without end is refused before it is built."""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

LARGEST_FILE = 2**20  # bytes
DEEPEST, MOST_VALUES = 50, 100_000  # values count as often as aliases repeat them


def read_yaml(path: Path) -> Any:
    """Read a YAML document of plain values.

    Raises:
        yaml.YAMLError: It is not YAML, names a key twice, or unfolds beyond the bounds.
        ValueError: It holds bytes that are no UTF-8, or a number or a date that cannot be.
    """
    with path.open("rb") as file:
        text = file.read(LARGEST_FILE + 1).decode("utf-8")
    if len(text) > LARGEST_FILE:
        raise yaml.YAMLError(f"it is larger than {LARGEST_FILE // 2**10} KiB")
    _check_size(yaml.parse(text, yaml.SafeLoader))
    return yaml.load(text, _Loader)


def _check_size(events: Iterator[yaml.Event]) -> None:
    """Count the values as if each alias were written out."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []  # anchor and size before, of the collections around
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
                raise yaml.YAMLError(f"{event.anchor!r} holds itself\n{event.start_mark}")
            size += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = size - before
        if len(open_) > DEEPEST or size > MOST_VALUES:
            bounds = f"deeper than {DEEPEST} levels or to more than {MOST_VALUES:,} values"
            raise yaml.YAMLError(f"it unfolds {bounds}\n{event.start_mark}")


class _Loader(yaml.SafeLoader):
    """Plain values only, and no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands here again", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)
