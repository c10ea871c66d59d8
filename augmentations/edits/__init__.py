"""One function per edit, of an image and JSON-able parameters, and the registry that names them."""
