"""Changes in place of what backward still needs: telling autograd of them, and living with them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from fastgrad.autograd.saved import saved_tensors_hooks
from fastgrad.autograd.threads import carried
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import GRAD_ENABLED, MUTATION_HOOKS
from fastgrad.native.contracts.records import TENSOR

_STORAGE = TENSOR.fields["storage"][0]


def increment_version(tensor: Any) -> None:
    """Say that the memory of tensors was changed behind autograd's back.

    Parameters
    ----------
    tensor : Tensor or iterable of Tensor

    Raises
    ------
    RuntimeError
        For anything else.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2)
    >>> fg.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    tensors: Iterable[Any] = (
        tensor if isinstance(tensor, Iterable) and not isinstance(tensor, TensorBase) else (tensor,)
    )
    for t in tensors:
        if not isinstance(t, TensorBase):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, not {type(t).__name__}"
            )
        rt.bump(t)


class _Kept:
    """A saved tensor: the memory itself until somebody is about to change it, a copy from then on."""

    __slots__ = ("__weakref__", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.version = tensor._version

    def value(self) -> Any:
        """The tensor, if it was not changed where nobody could copy it before: after the context, or unseen."""
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation "
                "outside of the allow_mutation_on_saved_tensors context in which it was saved"
            )
        return self.tensor


class _State(threading.local):
    """The context that a thread is in."""

    active: allow_mutation_on_saved_tensors | None = None


_state = _State()
carried(lambda: _state.active, lambda active: setattr(_state, "active", active))


class allow_mutation_on_saved_tensors(saved_tensors_hooks):  # noqa: N801 - the field's name
    """While this context is active, saved tensors may be changed in place: backward reads a copy of the old values.

    Notes
    -----
    A copy is made when a tensor is about to change, and only if it was saved. Backward must run while the context is
    active or later; entering the context twice raises.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> with fg.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 3
    ...     z = y.pow(2)
    ...     y = y.zero_()
    ...     z.sum().backward()
    >>> x.grad
    tensor([18., 18.])
    """

    def __init__(self) -> None:
        self._kept: dict[int, WeakSet[_Kept]] = {}  # by the memory that they share

        def pack(tensor: Any) -> _Kept:
            kept = _Kept(tensor.detach())
            self._kept.setdefault(rt.field(tensor, _STORAGE), WeakSet()).add(kept)
            return kept

        super().__init__(pack, _Kept.value)

    def __enter__(self) -> None:
        if _state.active is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        super().__enter__()
        _state.active = self
        rt.set_mode(rt.get_mode() | MUTATION_HOOKS)

    def __exit__(self, *error: object) -> None:
        _state.active = None
        rt.set_mode(rt.get_mode() & ~MUTATION_HOOKS)
        super().__exit__(*error)

    def copy(self, storage: int) -> None:
        """Let everything that was saved of some memory have a copy of its own."""
        for kept in self._kept.pop(storage, ()):
            kept.tensor = kept.tensor.clone()
            kept.version = kept.tensor._version


def before_mutation(tensor: Any) -> None:
    """A tensor is about to be changed in place."""
    context = _state.active
    if context is not None:
        mode = rt.set_mode(rt.get_mode() & ~(GRAD_ENABLED | MUTATION_HOOKS))
        try:
            context.copy(rt.field(tensor, _STORAGE))
        finally:
            rt.set_mode(mode)


runtime_set_object("before_mutation", before_mutation)
