"""The work of the tools: matching folders, the explorer, evaluation, export, the choice of a pooling exponent."""
