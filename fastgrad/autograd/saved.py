"""Saved tensors as users see them: hooks that pack and unpack them, `_saved_*` and `_raw_saved_*` of nodes.

Note [Packed places]: a node keeps what its derivative reads in numbered places: see Note [Saved places] in
`native.contracts.ops`; for a custom function in the order of `save_for_backward`. What a hook packed stands in the
node's dict `_packed` under the place's number, as a `_Packed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from fastgrad.autograd.modes import Mode, no_grad
from fastgrad.cuda import selection
from fastgrad.native.build.loader import ContextBase, TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import PYTHON_APPLY, REFUSAL_SETTING, SAVED_FREED, SAVED_SETTING
from fastgrad.native.contracts.limits import SAVED_INPUTS
from fastgrad.native.contracts.records import NODE, TENSOR
from fastgrad.native.host.saved_calls import call_pack, call_unpack
from fastgrad.native.host.tables import OPS

Pack: TypeAlias = Callable[[Any], Any]
Unpack: TypeAlias = Callable[[Any], Any]

_OP, _NODE_FLAGS, _N_IN, _N_OUT = (NODE.fields[n][0] for n in ("op", "flags", "n_in", "n_out"))
_OUTPUT_NR = TENSOR.fields["output_nr"][0]
_version = rt.version


class _Packed(NamedTuple):
    """What hooks hold in place of a saved tensor.

    A derivative that is a rule finds the history of what it reads in the edges of its node. What a custom function
    saved may be anything, so its history is kept here: the node and output number at which its gradient arrives, with
    None in place of the node that saved it, which would otherwise hold itself. A view that was made without history
    requires grad and its gradient arrives nowhere: `unrecorded` says so, and what is unpacked is a leaf that does.
    """

    value: Any
    unpack: Unpack
    history: tuple[Any, int] | None
    unrecorded: bool


def pair_in_force() -> tuple[Pack, Unpack] | None:
    """The hooks in force in this thread: the innermost pair."""
    chain = rt.setting(SAVED_SETTING)
    return chain and chain[0]  # type: ignore[no-any-return]


class saved_tensors_hooks(ContextBase):  # noqa: N801 - the field's name
    """While this context is active, what ops save for backward goes through a pair of functions.

    Parameters
    ----------
    pack_hook : callable
        Gets each tensor when it is saved, with gradients off, and returns anything. It must not change the tensor.
    unpack_hook : callable
        Gets what `pack_hook` returned each time the saved value is read, and returns a tensor of the same content.

    Raises
    ------
    TypeError
        On entry, if one of the two is not callable; in backward, if `unpack_hook` returns something else than a tensor.
    RuntimeError
        If `pack_hook` changes its argument in place, or hooks are disabled.

    Notes
    -----
    Of nested contexts only the innermost applies. A pair that keeps the tensor itself keeps its graph: keep
    ``tensor.detach()``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> with fg.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), fg.tensor):
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        self._setting = 1 + SAVED_SETTING
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def _entering(self) -> tuple[Pack, Unpack]:
        """What the runtime asks before hooks come into force: the pair."""
        for name in ("pack_hook", "unpack_hook"):
            if not callable(getattr(self, name)):
                raise TypeError(
                    f"saved_tensors_hooks(): {name} must be callable, not {type(getattr(self, name)).__name__}"
                )
        refusal = rt.setting(REFUSAL_SETTING)
        if refusal is not None:
            raise RuntimeError(refusal[0])
        return (self.pack_hook, self.unpack_hook)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """While this context is active, saved tensors wait for backward in the memory of the host.

    Parameters
    ----------
    pin_memory : bool
        Let it be memory that a GPU copies from by itself, if there is one; see `Tensor.pin_memory`.
    device_type : str
        The device that pinned memory would serve.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> with fg.autograd.graph.save_on_cpu():
    ...     y = x.exp()
    >>> y.sum().backward()
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        pins = bool(pin_memory) and selection.is_available()

        def pack(tensor: Any) -> tuple[Any, Any]:
            packed = tensor.detach().cpu()
            return (tensor.device, packed.pin_memory() if pins else packed)

        def unpack(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device, non_blocking=pins)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(Mode):  # noqa: N801 - the field's name
    """While this context is active, entering `saved_tensors_hooks` raises a RuntimeError.

    Parameters
    ----------
    error_message : str
        What the error says; the innermost one counts.

    Raises
    ------
    RuntimeError
        If it is entered while hooks are in force.
    """

    def __init__(self, error_message: str) -> None:
        self._setting = 1 + REFUSAL_SETTING
        self.error_message = error_message

    def _entering(self) -> str:
        if pair_in_force() is not None:
            raise RuntimeError(self.error_message)
        return self.error_message

    def _again(self) -> disable_saved_tensors_hooks:
        return type(self)(self.error_message)


# --- what compiled code asks -----------------------------------------------------------------------------------


def _pack(node: Any, place: int, pair: tuple[Pack, Unpack], tensor: Any, argument: Any) -> None:
    """Give `tensor`, shown to the pack hook as `argument`, into the keeping of a pair of hooks."""
    value = _given(pair[0], argument)
    kept = node._packed
    if kept is None:
        kept = node._packed = {}
    unrecorded = tensor.requires_grad and _is_unrecorded(node, place, tensor)
    kept[place] = _Packed(value, pair[1], None if unrecorded else _history(node, tensor), unrecorded)


def _given(pack: Pack, tensor: Any) -> Any:
    """What a pack hook returns for a tensor, which it must not change."""
    version = _version(tensor)
    value = call_pack(pack, tensor)
    if _version(tensor) != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
            "cannot be "
            "modified in place; return a changed copy, such as tensor * 2, or clone the tensor first."
        )
    return value


def _lacks_edge(node: Any, place: int) -> bool:
    """Whether a place is that of an input which a node has no edge for."""
    if place >= SAVED_INPUTS:
        return False
    return place >= rt.node_field(node, _N_IN) or rt.node_output(node, place) < 0


def _is_unrecorded(node: Any, place: int, tensor: Any) -> bool:
    """Whether the tensor, which requires grad, is a view made without history."""
    if not rt.node_field(node, _NODE_FLAGS) & PYTHON_APPLY and not _lacks_edge(node, place):
        return False
    return tensor.is_leaf and rt.gradient_node(tensor) is None


def _history(node: Any, tensor: Any) -> tuple[Any, int] | None:
    if not rt.node_field(node, _NODE_FLAGS) & PYTHON_APPLY or not tensor.requires_grad:
        return None
    target = rt.gradient_node(tensor)
    return None if target is node else target, rt.field(tensor, _OUTPUT_NR)


def pack_saved(node: Any, place: int, tensor: Any) -> None:
    """A tensor is being saved while hooks are in force."""
    pair = pair_in_force()
    assert pair is not None
    _pack(node, place, pair, tensor, tensor)


def unpack_saved(node: Any, place: int, _: object = None) -> Any:
    """The tensor that a pack hook has in its keeping for a place of a node."""
    packed = node._packed[place]
    return _as_tensor(call_unpack(packed.unpack, packed.value))


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value).__name__}"
        )
    return value


runtime_set_object("pack_saved", pack_saved)
runtime_set_object("unpack_saved", unpack_saved)


# --- reading ---------------------------------------------------------------------------------------------------


def is_packed(node: Any, place: int) -> bool:
    """Whether hooks hold what a node saved in a place."""
    return bool(node._packed) and place in node._packed


def saved_value(node: Any, place: int, edge: int = -1) -> Any:
    """What a node saved in a place, with the history that it had: that of input `edge`, or that of an output.

    Raises
    ------
    RuntimeError
        If it was freed, or changed in place since.
    """
    if not is_packed(node, place):
        return rt.saved_place(node, place)
    packed = node._packed[place]
    value = unpack_saved(node, place)
    if edge < 0:
        return value
    return _without_history(value, packed) if _lacks_edge(node, edge) else rt.attach_input(node, edge, value)


def _without_history(value: Any, packed: _Packed) -> Any:
    """What hooks gave back for a tensor whose gradient arrived nowhere: the same object if that is so for it, too."""
    if packed.unrecorded:
        return value.detach().requires_grad_()
    return value.detach() if value.requires_grad else value


def saved_by_function(node: Any, place: int) -> Any:
    """What a custom function saved in a place, with the history that it had.

    Raises
    ------
    RuntimeError
        If it was freed, or changed in place since.
    """
    if not is_packed(node, place):
        return rt.saved_place(node, place)
    packed = node._packed[place]
    value = unpack_saved(node, place)
    if packed.history is None:
        return _without_history(value, packed)
    target, output_nr = packed.history
    return rt.attach_output(node if target is None else target, output_nr, value)


class SavedTensor:
    """A saved tensor of a node, as ``node._raw_saved_<name>`` gives it.

    Attributes
    ----------
    name : str
        What the derivative calls it.
    """

    name: str
    _node: Any
    _place: int

    def __init__(self) -> None:
        """Refuse: nodes have them."""
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def _of(cls, node: Any, name: str, place: int) -> SavedTensor:
        """What a node saved in a place."""
        self = cls.__new__(cls)
        self.name, self._node, self._place = name, node, place
        return self

    def register_hooks(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        """Pack this one tensor, at once.

        Parameters
        ----------
        pack_hook, unpack_hook : callable
            As for `saved_tensors_hooks`.

        Raises
        ------
        RuntimeError
            If it has hooks already, was freed, or is None.
        """
        node, place = self._node, self._place
        if rt.node_field(node, _NODE_FLAGS) & SAVED_FREED:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values "
                "of the graph "
                "are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need "
                "to backward "
                "through the graph a second time."
            )
        if is_packed(node, place):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one "
                "pair of hooks "
                "is allowed at a time."
            )
        value = rt.saved_place(node, place)
        if value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        with no_grad():
            _pack(node, place, (pack_hook, unpack_hook), value, value.detach())
        rt.mark_packed(node, place)


def saved_attribute(node: Any, name: str, raw: bool) -> Any:
    """The attribute ``_saved_<name>`` of a node, or ``_raw_saved_<name>``.

    Raises
    ------
    AttributeError
        If the node's op saves nothing of that name: another one whose nodes have this class does.
    """
    op = OPS[rt.node_field(node, _OP)]
    place = next((place for place, called in op.saving.names.items() if called == name), None)
    if place is None:
        raise AttributeError(f"'{type(node).__name__}' object has no attribute '_saved_{name}'")
    if raw:
        return SavedTensor._of(node, name, place)
    value = saved_value(node, place, place if place < SAVED_INPUTS else -1)
    number = place - SAVED_INPUTS
    if value is not None and value.dtype.inexact and 0 <= number < rt.node_field(node, _N_OUT):
        return rt.attach_output(node, number, value)
    return value


# --- saving without a node --------------------------------------------------------------------------------------


def keep(tensor: Any) -> Callable[[], Any]:
    """Save a tensor as an op would, in the keeping of the hooks in force; returns what gives it back.

    Raises
    ------
    RuntimeError
        When it is asked for, if it was changed in place since.
    """
    pair = pair_in_force()
    if pair is not None:
        pack, unpack = pair
        with no_grad():
            value = _given(pack, tensor)
        requires_grad = tensor.requires_grad

        def give() -> Any:
            return _as_tensor(call_unpack(unpack, value)).detach().requires_grad_(requires_grad)
    else:
        version = rt.version(tensor)

        def give() -> Any:
            now = rt.version(tensor)
            if now != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"a tensor of sizes {list(tensor.shape)}, which is at version {now}; expected version {version} "
                    "instead"
                )
            return tensor

    return give
