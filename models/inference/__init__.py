"""Images to vectors with trained networks: PyTorch and ONNX, on one device or several, and the pooling exponent to use."""
