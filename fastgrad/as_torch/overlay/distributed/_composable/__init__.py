"""Where PyTorch kept `fsdp` before."""
