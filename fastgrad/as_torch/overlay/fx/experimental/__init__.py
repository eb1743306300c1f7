"""Modules of ``torch.fx.experimental`` whose names libraries import."""
