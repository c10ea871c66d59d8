"""A graph that embeds images without their mirror images, cut from one that averages both: half the work, for views of a picture.

An ONNX model is a protocol buffer, whose messages are fields: a key, which is a number and a type, and a value. The package onnx
is not needed where searches run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GRAPH, NODE, OUTPUT = 7, 1, 12  # numbers of fields: the model's graph, the graph's nodes and outputs
TAKES, MAKES, NAME, OPERATION = 1, 2, 3, 4  # of a node: its inputs, its outputs, its name, what it does
VALUE_NAME = 1  # of an output
NUMBER, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5  # types of fields
FLIP = "node_flip"  # how the exporter begins the names of nodes that mirror an image


@dataclass(frozen=True)
class _Field:
    number: int
    content: bytes  # of the value; empty of a number
    whole: bytes  # with the key


@dataclass(frozen=True)
class _Node:
    field: _Field
    takes: Sequence[str]
    makes: Sequence[str]
    name: str
    operation: str


def drop_mirror_images(model: bytes) -> bytes | None:
    """Return a model that embeds images alone where the given one adds the unit vectors of images and of their mirror images.

    None where it does not. What was such a sum becomes twice the first vector, and is scaled to unit length as the sum was.
    """
    outside = list(_read_fields(model))
    graph = [field for field in outside if field.number == GRAPH]
    if len(graph) != 1:
        return None
    fields = list(_read_fields(graph[0].content))
    nodes = [_read_node(field) for field in fields if field.number == NODE]
    outputs = [_names(field.content, VALUE_NAME) for field in fields if field.number == OUTPUT]
    changed = _double_plain(nodes)
    if changed == nodes:
        return None
    kept = _keep_needed(changed, {name for names in outputs for name in names})
    rest = b"".join(field.whole for field in fields if field.number != NODE)
    content = rest + b"".join(node.field.whole for node in kept)
    return b"".join(field.whole for field in outside if field.number != GRAPH) + _write_field(GRAPH, content)


def _double_plain(nodes: Sequence[_Node]) -> list[_Node]:
    """Return nodes, those changed that add the unit vectors of an image and of its mirror image: they add the first to itself."""
    unit = {name for node in nodes if node.operation == "Div" for name in node.makes}
    mirrored: set[str] = set()
    changed = []
    for node in nodes:
        plain = [name for name in node.takes if name not in mirrored]
        if node.operation == "Add" and len(plain) == 1 and unit.issuperset(node.takes):
            changed.append(_take(node, plain * 2))
            continue
        changed.append(node)
        if node.name.startswith(FLIP) or len(plain) < len(node.takes):
            mirrored.update(node.makes)
    return changed


def _keep_needed(nodes: Sequence[_Node], needed: set[str]) -> list[_Node]:
    """Return the nodes, in order, of which the needed values are made."""
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.makes):
            needed = needed.union(node.takes)
            kept.append(node)
    return kept[::-1]


def _take(node: _Node, names: Sequence[str]) -> _Node:
    """Return a node that takes other values."""
    taken = b"".join(_write_field(TAKES, name.encode()) for name in names)
    content = taken + b"".join(field.whole for field in _read_fields(node.field.content) if field.number != TAKES)
    return _read_node(_Field(NODE, content, _write_field(NODE, content)))


def _read_node(field: _Field) -> _Node:
    content = field.content
    name, operation = (next(iter(_names(content, number)), "") for number in (NAME, OPERATION))
    return _Node(field, _names(content, TAKES), _names(content, MAKES), name, operation)


def _names(content: bytes, number: int) -> list[str]:
    return [field.content.decode() for field in _read_fields(content) if field.number == number]


def _read_fields(content: bytes) -> Iterator[_Field]:
    """Yield the fields of a message."""
    place = 0
    while place < len(content):
        key, start = _read_number(content, place)
        kind = key & 7
        if kind == BYTES:
            length, start = _read_number(content, start)
            end = start + length
        elif kind == NUMBER:
            end = _read_number(content, start)[1]
            start = end
        else:
            end = start + {FIXED_64: 8, FIXED_32: 4}[kind]
        yield _Field(key >> 3, content[start:end], content[place:end])
        place = end


def _write_field(number: int, content: bytes) -> bytes:
    return _write_number(number << 3 | BYTES) + _write_number(len(content)) + content


def _read_number(content: bytes, place: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _write_number(value: int) -> bytes:
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
