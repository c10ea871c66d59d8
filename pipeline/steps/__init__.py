"""The work of each numbered step, and what defines a step."""
