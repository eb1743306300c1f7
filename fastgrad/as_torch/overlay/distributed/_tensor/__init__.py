"""Where PyTorch kept `distributed.tensor` before.

The classes are missing; programs name them when they are imported.
"""
