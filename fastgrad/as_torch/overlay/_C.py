# ruff: noqa: N999 - the name is PyTorch's
"""Of the compiled part of PyTorch, what libraries call while they are imported."""

from __future__ import annotations

from enum import Enum
from typing import Any

import fastgrad as fg
from fastgrad.native.build.loader import TensorBase as TensorBase

Generator, Size, device, dtype, layout, memory_format = (
    fg.Generator, fg.Size, fg.device, fg.dtype, fg.layout, fg.memory_format,
)  # fmt: skip
default_generator = fg.default_generator
DispatchKey = Enum(  # type: ignore[misc] # the members are many, and nothing here asks for them
    "DispatchKey",
    "Undefined CPU CUDA XPU MPS MTIA HPU Meta NestedTensor SparseCPU SparseCUDA SparseMeta QuantizedCPU BackendSelect "
    "Python Functionalize ADInplaceOrView Autograd AutogradCPU AutogradCUDA AutogradXPU AutogradMPS AutogradMeta "
    "AutogradOther AutocastCPU AutocastCUDA AutocastXPU AutocastMPS AutocastHPU FuncTorchBatched PythonDispatcher "
    "CompositeImplicitAutograd CompositeExplicitAutograd",
)
"""Names of PyTorch's dispatcher, which packages put together while they are imported."""


class DispatchKeySet:
    """A set of them.

    Parameters
    ----------
    *keys : DispatchKey
    """

    def __init__(self, *keys: Any) -> None:
        for key in keys:
            if not isinstance(key, DispatchKey):
                raise TypeError(f"DispatchKeySet(): expected a DispatchKey, but got {type(key).__name__}")
        self._keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return (
            DispatchKeySet(*self._keys, *other._keys) if isinstance(other, DispatchKeySet) else NotImplemented
        )

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return (
            DispatchKeySet(*self._keys & other._keys) if isinstance(other, DispatchKeySet) else NotImplemented
        )

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return (
            DispatchKeySet(*self._keys - other._keys) if isinstance(other, DispatchKeySet) else NotImplemented
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return (
            f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys, key=lambda key: key.value))})"
        )

    def has(self, key: Any, /) -> bool:
        """Whether it is in the set."""
        return key in self._keys

    def add(self, key: Any, /) -> DispatchKeySet:
        """A set with one more."""
        return DispatchKeySet(*self._keys, key)

    def remove(self, key: Any, /) -> DispatchKeySet:
        """A set without one."""
        return DispatchKeySet(*self._keys - {key})


has_cuda, has_lapack, has_mkldnn, has_mps, has_openmp, has_spectral = False, True, False, False, False, True


def _log_api_usage_once(event: str, /) -> None:
    """Nothing: no use is counted."""


def _get_tracing_state() -> Any:
    """None: nothing is ever traced."""
    return


def _is_tracing() -> bool:
    """False: nothing is ever traced."""
    return False


def _are_functorch_transforms_active() -> bool:
    """Whether a call of `vmap` is under way, in which values cannot be looked at."""
    from fastgrad.func.batched import levels

    return bool(levels())


def _jit_set_profiling_executor(value: bool, /) -> bool:
    """False: there is no executor."""
    return False


def _jit_set_profiling_mode(value: bool, /) -> bool:
    """False: there is no executor."""
    return False
