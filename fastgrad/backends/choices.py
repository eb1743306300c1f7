"""Choices between libraries that fastgrad does not have: kept for programs that make them, and without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from fastgrad import cuda
from fastgrad.cuda.selection import gpu_of


class _LinalgBackend(Enum):
    """Libraries that PyTorch factors and decomposes matrices with."""

    Default = 0
    Cusolver = 1
    Magma = 2


class _BlasBackend(Enum):
    """Libraries that PyTorch multiplies matrices with."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


_LINALG: Mapping[str, _LinalgBackend] = {
    "default": _LinalgBackend.Default, "cusolver": _LinalgBackend.Cusolver, "magma": _LinalgBackend.Magma,
}  # fmt: skip
_BLAS: Mapping[str, _BlasBackend] = {
    "default": _BlasBackend.Cublas, "cublas": _BlasBackend.Cublas, "hipblas": _BlasBackend.Cublas,
    "cublaslt": _BlasBackend.Cublaslt, "hipblaslt": _BlasBackend.Cublaslt, "ck": _BlasBackend.Ck,
}  # fmt: skip
_NEEDS_GPU = {
    _LinalgBackend.Cusolver: "cuSOLVER", _LinalgBackend.Magma: "MAGMA", _BlasBackend.Cublaslt: "cuBLASLt",
}  # fmt: skip
_chosen: dict[type[Enum], Enum] = {
    _LinalgBackend: _LinalgBackend.Default,
    _BlasBackend: _BlasBackend.Cublas,
}


def _preferred(kind: type[Enum], names: Mapping[str, Any], backend: Any) -> Any:
    """Keep a choice, if there is one; what is kept."""
    if backend is None:
        return _chosen[kind]
    if isinstance(backend, str):
        if backend not in names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
        backend = names[backend]
    elif not isinstance(backend, kind):
        raise RuntimeError("Unknown input value type.")
    needed = _NEEDS_GPU.get(backend)
    if needed is not None and not cuda.is_available():
        raise RuntimeError(f"Cannot set preferred backend to {needed}: there is no GPU")
    _chosen[kind] = backend
    return backend


def preferred_linalg_library(backend: Any = None) -> Any:
    """Keep a choice that has no effect: matrices are factored and decomposed by fastgrad's own kernels.

    Parameters
    ----------
    backend : str or _LinalgBackend, optional
        "default", "cusolver" or "magma"; by default only what is kept is returned.

    Returns
    -------
    _LinalgBackend
        What is kept.

    Raises
    ------
    RuntimeError
        If it is something else, or a library for GPUs without one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.backends.cuda.preferred_linalg_library("default")
    <_LinalgBackend.Default: 0>
    """
    return _preferred(_LinalgBackend, _LINALG, backend)


def preferred_blas_library(backend: Any = None) -> Any:
    """Keep a choice that has no effect: GPUs multiply matrices by cuBLAS.

    Parameters
    ----------
    backend : str or _BlasBackend, optional
        "default", "cublas", "cublaslt" or "ck"; by default only what is kept is returned.

    Returns
    -------
    _BlasBackend
        What is kept.

    Raises
    ------
    RuntimeError
        If it is something else, or a library for GPUs without one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.backends.cuda.preferred_blas_library()
    <_BlasBackend.Cublas: 1>
    """
    return _preferred(_BlasBackend, _BLAS, backend)


# --- attention -------------------------------------------------------------------------------------------------


class Switch(NamedTuple):
    """A choice that is on or off: a function that says which, and one that keeps another one."""

    enabled: Callable[[], bool]
    enable: Callable[[Any], None]


def switch(name: str, on: bool = True) -> Switch:
    """A choice of attention that has no effect.

    Parameters
    ----------
    name : str
        What messages call it.
    on : bool
        What it is at first.
    """
    kept = on

    def enabled() -> bool:
        """What was said last; it has no effect: there is one kind of attention."""
        return kept

    def enable(enabled: Any) -> None:
        """Keep a choice that has no effect: there is one kind of attention. RuntimeError if it is no bool."""
        nonlocal kept
        if type(enabled) is not bool:
            raise RuntimeError(f"{name} expects a bool, but got {type(enabled).__name__}")
        kept = enabled

    return Switch(enabled, enable)


class SDPAParams(NamedTuple):
    """A call of `scaled_dot_product_attention`, for the questions below."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool


# --- Fourier transforms ----------------------------------------------------------------------------------------

_PLANS = 4096


class _PlanCache:
    """Plans of cuFFT's for a GPU, of which there are none: transforms are fastgrad's own kernels.

    Attributes
    ----------
    size : int
        0.
    max_size : int
        Kept, and without effect.
    """

    def __init__(self, device: Any = None) -> None:
        self.device = device
        self._most: dict[int, int] = {}

    @property
    def size(self) -> int:
        gpu_of(self.device)
        return 0

    @property
    def max_size(self) -> int:
        return self._most.get(gpu_of(self.device).index, _PLANS)

    @max_size.setter
    def max_size(self, count: int) -> None:
        gpu = gpu_of(self.device)
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"max_size: expected an int, but got {type(count).__name__}")
        if count < 0:
            raise RuntimeError(f"max_size: expected a number that is not negative, but got {count}")
        self._most[gpu.index] = count

    def clear(self) -> None:
        """Nothing: there are no plans."""
        gpu_of(self.device)


class PlanCaches(_PlanCache):
    """The same for the current GPU, and by index for others."""

    def __init__(self) -> None:
        super().__init__()
        self._others: dict[int, _PlanCache] = {}

    def __getitem__(self, device: Any) -> _PlanCache:
        index = cuda.selection.index_of(device)
        count = cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with index {index}"
            )
        found = self._others.get(index)
        if found is None:
            found = self._others.setdefault(index, _PlanCache(index))
            found._most = self._most
        return found
