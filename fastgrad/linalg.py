"""Linear algebra under PyTorch's names: for now norms of vectors.

Examples
--------
>>> import fastgrad as fg
>>> fg.linalg.vector_norm(fg.tensor([3.0, 4.0]))
tensor(5.)
"""

from fastgrad.functions.statistics import vector_norm

__all__ = ["vector_norm"]
