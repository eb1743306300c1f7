"""What PyTorch asks other libraries to compute, and fastgrad computes itself."""
