"""Changes in place of what backward still needs: telling autograd of them, and living with them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from fastgrad.autograd.modes import no_grad
from fastgrad.autograd.saved import saved_tensors_hooks
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import MUTATION_HOOKS, SAVED_SETTING
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
        if self.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "recorded: what it kept was cleared"
            )
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation "
                "outside of the allow_mutation_on_saved_tensors context in which it was saved"
            )
        return self.tensor


def _layout(tensor: Any) -> tuple[Any, ...]:
    """What besides the address says which elements are those of a tensor; of another object at the place of one."""
    return tensor.dtype, tensor.shape, tensor.stride()


class _Copies:
    """What was saved in a context in which saved tensors may change, by the memory that they share."""

    def __init__(self) -> None:
        self.kept: dict[int, WeakSet[_Kept]] = {}
        self.cloned: WeakKeyDictionary[_Kept, Any] = WeakKeyDictionary()
        self.handles: WeakValueDictionary[tuple[int, int, int], _Kept] = WeakValueDictionary()

    def pack(self, tensor: Any) -> _Kept:
        """Keep a tensor; if that was done before, and it has not changed since, there is one handle for both."""
        identity = (id(tensor), tensor.data_ptr(), tensor._version)
        known = self.handles.get(identity)
        if known is not None and _layout(known.tensor) == _layout(tensor):
            return known
        kept = _Kept(tensor.detach())
        self.kept.setdefault(rt.field(tensor, _STORAGE), WeakSet()).add(kept)
        self.handles[identity] = kept
        return kept

    def copy(self, storage: int) -> None:
        """Let everything that was saved of some memory have a copy of its own."""
        for kept in self.kept.pop(storage, ()):
            self.cloned[kept] = kept.tensor = kept.tensor.clone()
            kept.version = kept.tensor._version

    def clear(self) -> None:
        """Forget all that was saved."""
        for kept in (*self.handles.values(), *self.cloned, *chain.from_iterable(self.kept.values())):
            kept.tensor = None
        self.kept.clear()
        self.cloned.clear()
        self.handles.clear()


def _active() -> _Copies | None:
    """Of the innermost such context that this thread is in."""
    pairs = rt.setting(SAVED_SETTING)
    while pairs is not None:
        (pack, _), pairs = pairs
        owner = getattr(pack, "__self__", None)
        if type(owner) is _Copies:
            return owner
    return None


class allow_mutation_on_saved_tensors(saved_tensors_hooks):  # noqa: N801 - the field's name
    """While this context is active, saved tensors may be changed in place: backward reads a copy of the old values.

    The ``with`` statement gives the context itself.

    Attributes
    ----------
    cloned : WeakKeyDictionary
        The copies that had to be made, by their handles, which the graph holds.
    tid_to_weakhandle : WeakValueDictionary
        The handle of everything that was saved and is still needed, by identity, address and version of the tensor.

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
        self._copies = _Copies()
        super().__init__(self._copies.pack, _Kept.value)
        self._on = MUTATION_HOOKS
        self._gives_self = 1

    @property
    def cloned(self) -> WeakKeyDictionary[_Kept, Any]:
        """The copies that had to be made, by their handles."""
        return self._copies.cloned

    @property
    def tid_to_weakhandle(self) -> WeakValueDictionary[tuple[int, int, int], _Kept]:
        """The handles of all that was saved and is still needed."""
        return self._copies.handles

    def clear(self) -> None:
        """Forget all that was saved: passes that need it raise from now on."""
        self._copies.clear()

    def _entering(self) -> Any:
        if _active() is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        return super()._entering()


def before_mutation(tensor: Any) -> None:
    """A tensor is about to be changed in place."""
    copies = _active()
    if copies is not None:
        with no_grad():
            copies.copy(rt.field(tensor, _STORAGE))


runtime_set_object("before_mutation", before_mutation)
