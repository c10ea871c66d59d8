"""Safe YAML: plain values, and documents with repeated keys, excessive nesting or aliases rejected before they are built."""

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
    try:
        _check_nodes(yaml.compose(text, yaml.SafeLoader))
    except RecursionError as error:  # PyYAML's own, after some hundred levels
        raise yaml.YAMLError(f"it expands to more than {MAX_DEPTH} levels") from error
    return yaml.safe_load(text)


def _check_nodes(root: yaml.Node | None) -> None:
    """Walk through the nodes, to which aliases lead as often as they repeat them."""
    left, count = [(root, 0)] if root else [], 0
    while left:
        node, depth = left.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_VALUES:
            bounds = f"more than {MAX_DEPTH} levels or {MAX_VALUES:,} values"
            raise yaml.MarkedYAMLError(problem=f"it expands to {bounds}", problem_mark=node.start_mark)
        if isinstance(node, yaml.SequenceNode):
            left += [(value, depth + 1) for value in node.value]
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is repeated", problem_mark=key.start_mark)
                    seen.add(key.value)
                left += [(key, depth + 1), (value, depth + 1)]
