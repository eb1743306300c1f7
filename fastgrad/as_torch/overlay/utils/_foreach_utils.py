"""What optimizers outside of the library ask before they change many tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__: list[str] = []


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of devices on which functions over lists of tensors may be used, beside the CPU."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The types of devices on which whole steps are one launch."""
    return ["cpu", "cuda"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of tensors in parts, by the device and the dtype of those of the first list.

    Raises
    ------
    RuntimeError
        If the first list lacks a tensor, or lists have other lengths.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0] if tensorlistlist else ()):
        if first is None:
            raise RuntimeError(
                f"Tensors of the first list of nested Tensor lists are supposed to be defined but the {index}-th "
                "Tensor is not."
            )
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            if whole and len(whole) != len(tensorlistlist[0]):
                raise RuntimeError("lists of tensors must have one length, or be empty")
            part.extend(whole[index : index + 1])
        if with_indices:
            places.append(index)
    return groups
