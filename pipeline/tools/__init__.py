"""The work of the commands beside the steps: matching folders, evaluation, ONNX export, the choice of an exponent."""
