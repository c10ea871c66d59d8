"""A graph that embeds images without their mirror images, cut from one that averages both: half the work, for views."""

FLIP = "node_flip"  # how the exporter begins the names of nodes that mirror an image


def drop_mirror_images(model: bytes) -> bytes | None:
    """Return an ONNX model that embeds images alone; the given one adds the unit vectors of images and of their mirror images.

    None where it does not. What was such a sum becomes twice the first vector, and is scaled to unit length as the sum was.
    """
    import onnx  # imported here: only searches with views need it

    cut = onnx.load_model_from_string(model)
    unit = {name for node in cut.graph.node if node.op_type == "Div" for name in node.output}
    mirrored, changed = set[str](), False
    for node in cut.graph.node:
        plain = [name for name in node.input if name not in mirrored]
        if node.op_type == "Add" and len(plain) == 1 and unit.issuperset(node.input):
            node.input[:] = plain * 2
            changed = True
        elif node.name.startswith(FLIP) or len(plain) < len(node.input):
            mirrored.update(node.output)
    if not changed:
        return None
    needed = {output.name for output in cut.graph.output}
    for place in reversed(range(len(cut.graph.node))):
        node = cut.graph.node[place]
        if needed.isdisjoint(node.output):
            del cut.graph.node[place]
        else:
            needed.update(node.input)
    return bytes(cut.SerializeToString())
