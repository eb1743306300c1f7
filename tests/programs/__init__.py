"""Small programs written for PyTorch; each leaves numbers in `result`."""
