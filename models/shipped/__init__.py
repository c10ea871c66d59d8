"""The descriptor that ships with the project; docs/model_card.md says how it was made and what it finds."""

from pathlib import Path

SHIPPED = Path(__file__).parent / "descriptor.safetensors"
