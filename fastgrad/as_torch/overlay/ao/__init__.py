"""A folder of PyTorch's; `quantization` is in it."""
