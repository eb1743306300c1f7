"""Averaging the parameters of models now and then, instead of gradients always."""

from fastgrad.distributed.algorithms.model_averaging import averagers, hierarchical_model_averager, utils
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["averagers", "hierarchical_model_averager", "utils"]

__getattr__ = _getattr_of(__name__)
