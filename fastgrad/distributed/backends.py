"""Names of what carries the calls of process groups."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastgrad.cuda import gpus
from fastgrad.cuda.selection import gpu_of
from fastgrad.distributed import nccl
from fastgrad.functions.arguments import need_type


class Backend(str):
    """The names of backends: ``Backend.MPI``, and ``Backend(name)``, which is the name in lower case.

    fastgrad sends by ``"mpi"`` and ``"nccl"``; the others are names that programs compare with.

    Parameters
    ----------
    name : str

    Raises
    ------
    ValueError
        If the name is no str.

    Examples
    --------
    >>> from fastgrad.distributed import Backend
    >>> Backend("MPI"), Backend.NCCL
    ('mpi', 'nccl')
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    XCCL = "xccl"
    UCC = "ucc"
    MPI = "mpi"
    FAKE = "fake"
    backend_list = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE)

    def __new__(cls, name: Any) -> Any:
        """The name in lower case, a plain str as in PyTorch."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be a str, not {type(name).__name__}")
        return str(name).lower()

    @classmethod
    def register_backend(cls, name: str, *args: Any, **kwargs: Any) -> None:
        """Refuse: there are no other transports than MPI and NCCL.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError(
            f"Backend.register_backend(): fastgrad sends by 'mpi' and 'nccl', so that {name!r} cannot be added"
        )


# --- those that there are ---------------------------------------------------------------------------------------

BACKENDS = {"mpi": "mpi", "cpu:mpi": "mpi", "nccl": "nccl", "cuda:nccl": "nccl", "cpu:mpi,cuda:nccl": "nccl"}
"""What the names that programs give mean."""


def need_backend(backend: Any) -> str:
    """The backend of a name, if it can be used here."""
    if backend is None:
        return "mpi"
    if not isinstance(backend, str):
        raise TypeError(f"init_process_group(): argument 'backend' must be str, not {type(backend).__name__}")
    name = backend.lower()
    if name in BACKENDS:
        return BACKENDS[name]
    if name in ("gloo", "ucc", "xccl") or "," in name:
        raise NotImplementedError(
            f"init_process_group(): the backend {backend!r} is not supported; use 'mpi', with tensors on the CPU, or "
            "'nccl', with tensors on GPUs too"
        )
    raise ValueError(f"Invalid backend: {backend!r}; fastgrad has 'mpi' and 'nccl'")


def need_gpu(call: str, backend: str, device: Any) -> Any:
    """The GPU that a program names for the calls of this process; None if it names none."""
    if backend != "nccl":
        if device is not None:
            raise NotImplementedError(
                f"{call}(): argument 'device_id' is for GPUs, which need the backend 'nccl'"
            )
        return None
    if not gpus.count():
        raise ValueError(f"{call}(): the backend nccl is only supported with GPUs, no GPUs found!")
    nccl.library()
    return None if device is None else gpu_of(device)


@cache
def is_mpi_available() -> bool:
    """Whether mpi4py is installed, which the backend ``"mpi"`` needs."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Whether NCCL is there, which the backend ``"nccl"`` needs besides MPI."""
    return nccl.is_available()


def is_gloo_available() -> bool:
    """Whether there is the backend ``"gloo"``; there is none."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process, which it cannot."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether there is a backend of this name."""
    name = need_type("is_backend_available", backend, str, "backend").lower()
    return is_mpi_available() and (name == "mpi" or (name == "nccl" and is_nccl_available()))
