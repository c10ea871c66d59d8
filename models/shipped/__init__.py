"""The descriptor that ships with the project, described in docs/model_card.md, and its graph, which needs no torch.

Other weights need another graph: python pipeline/export.py --checkpoint models/shipped/descriptor.safetensors --graph.
"""

from pathlib import Path

SHIPPED = Path(__file__).parent / "descriptor.safetensors"
