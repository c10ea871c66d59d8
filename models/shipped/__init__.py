"""The descriptor that ships with the project (docs/model_card.md): weights, from which torch goes on to train, and graph.

`python pipeline/export.py --run DIR --output models/shipped/descriptor.safetensors` writes both.
"""

from pathlib import Path

SHIPPED = Path(__file__).parent / "descriptor.safetensors"
