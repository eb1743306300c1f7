"""A folder of PyTorch's; what is in it has other places."""
