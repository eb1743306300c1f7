"""Private modules of PyTorch's that libraries ask for."""
