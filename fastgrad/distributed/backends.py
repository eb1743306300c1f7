"""Names of what carries the calls of process groups."""

from __future__ import annotations

from typing import Any


class Backend(str):
    """The names of backends: ``Backend.MPI``, and ``Backend(name)``, which is the name in lower case.

    fastgrad sends by ``"mpi"`` alone; the others are names that programs compare with.

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
        """Refuse: there is no other transport than MPI.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError(
            f"Backend.register_backend(): fastgrad sends by 'mpi' alone, so that {name!r} cannot be added"
        )
