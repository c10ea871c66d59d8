"""The descriptor that ships with the project, described in docs/model_card.md."""

from pathlib import Path

SHIPPED = Path(__file__).parent / "descriptor.safetensors"
