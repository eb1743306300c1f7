"""Modules of ``torch.distributed`` whose names programs import."""
