"""The descriptor that ships with the project (docs/model_card.md): weights for torch, and their graph.

`python pipeline/export.py --run DIR --output models/shipped/descriptor.safetensors` writes both.
"""

from pathlib import Path

SHIPPED = Path(__file__).parent / "descriptor.safetensors"
