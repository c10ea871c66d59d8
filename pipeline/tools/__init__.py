"""The work of the tools: data sets, evaluation, export, the choice of a pooling exponent."""
