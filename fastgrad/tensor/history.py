"""A tensor's place in the graph: gradients, hooks, memory shared with others."""

from __future__ import annotations

import builtins
import warnings
from typing import TYPE_CHECKING, Any

from fastgrad import dtypes
from fastgrad.autograd import engine
from fastgrad.autograd import hooks as hooks_
from fastgrad.functions.arguments import as_flag
from fastgrad.functions.creation import empty
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import (
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_MODE,
    IS_VIEW,
    REQUIRES_GRAD,
    RETAINS_GRAD,
)
from fastgrad.native.contracts.records import TENSOR
from fastgrad.tensor.methods import Methods

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

_DTYPE, _FLAGS, _OUTPUT_NR = (TENSOR.fields[n][0] for n in ("dtype", "flags", "output_nr"))
_field, _sizes = rt.field, rt.sizes
_NOTHING: Any = object()


class History(Methods):
    """What autograd knows of a tensor."""

    __slots__ = ()

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether gradients with regard to this tensor, or through it, are wanted."""
        return builtins.bool(rt.flags_of(self) & REQUIRES_GRAD)

    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Say whether gradients are wanted; of leaves only.

        Raises
        ------
        RuntimeError
            If the dtype is not floating, or for a non-leaf that should not require grad.
        """
        kind = dtypes.ALL[_field(self, _DTYPE)]
        flag = as_flag("requires_grad_", "requires_grad", requires_grad)
        if requires_grad and not kind.inexact:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                "variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        if requires_grad and _field(self, _FLAGS) & INFERENCE and not rt.get_mode() & INFERENCE_MODE:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        rt.set_requires_grad(self, flag)
        return self

    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no op with history made it."""
        return bool(rt.is_leaf(self))

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` it is."""
        return _field(self, _OUTPUT_NR)  # type: ignore[no-any-return]

    grad_fn = property(rt.grad_fn, doc="The node of the op that made it, a `Node`; None for leaves.")

    @property
    def grad(self) -> Any:
        """The gradient that backward passes have added up.

        Warns
        -----
        UserWarning
            If it is read of a non-leaf for which no pass will write it.
        """
        found = rt.get_grad(self)
        if found is None and not rt.is_leaf(self) and not self.retains_grad:
            warnings.warn(
                "`grad` of a tensor that is not a leaf is read: passes write it only after retain_grad() was called on "
                "the tensor. If it was read by mistake, read that of the leaf instead",
                UserWarning,
                stacklevel=2,
            )
        return found

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if _sizes(value) != _sizes(self):
                raise RuntimeError(
                    f"assigned grad has data of a different size: expected {list(self.shape)}, got "
                    f"{list(_sizes(value))}"
                )
            if _field(value, _DTYPE) != _field(self, _DTYPE):
                raise RuntimeError(
                    f"assigned grad has dtype {value.dtype.name}, but the tensor has {self.dtype.name}"
                )
        rt.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        rt.set_grad(self, None)

    _grad = grad

    def backward(
        self,
        gradient: Any = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradients of this tensor with regard to the leaves to their ``grad``.

        See `fastgrad.autograd.backward` for the parameters.
        """
        engine.backward(self, gradient, retain_graph, create_graph, None, inputs)

    register_hook = hooks_.register_tensor_hook

    register_post_accumulate_grad_hook = hooks_.register_post_accumulate_grad_hook

    def _set_post_accumulate_grad_hook(self, hook: Any) -> None:
        """Make `hook`, a `PostAccumulateGradHook`, the only post-accumulate hook of this leaf; None removes all."""
        hooks_.set_post_accumulate_hook(self, hook)

    @property
    def _post_accumulate_grad_hooks(self) -> Any:
        return hooks_.leaf_hooks(self, hooks_.POST_HOOKS)

    @_post_accumulate_grad_hooks.setter
    def _post_accumulate_grad_hooks(self, hooks: Any) -> None:
        hooks_.set_leaf_hooks(self, hooks_.POST_HOOKS, hooks)

    @_post_accumulate_grad_hooks.deleter
    def _post_accumulate_grad_hooks(self) -> None:
        raise RuntimeError("Deletion of _post_accumulate_grad_hooks not allowed!")

    @property
    def _backward_hooks(self) -> Any:
        return hooks_.leaf_hooks(self, hooks_.TENSOR_HOOKS) if self.is_leaf else rt.output_hooks(self)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        if self.is_leaf:
            hooks_.set_leaf_hooks(self, hooks_.TENSOR_HOOKS, hooks)
        else:
            hooks_.set_output_hooks(self, hooks)

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backward_hooks not allowed!")

    def retain_grad(self) -> None:
        """Let backward passes write the gradient of this non-leaf to its ``grad``."""
        if not rt.retain_grad(self):
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` was called on this non-leaf."""
        return builtins.bool(_field(self, _FLAGS) & RETAINS_GRAD)

    def detach(self) -> Tensor:
        """A tensor over the same memory without history."""
        return rt.detach(self)  # type: ignore[no-any-return]

    def detach_(self) -> Tensor:
        """Forget the history, in place."""
        if _field(self, _FLAGS) & IS_VIEW:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If the view is a gradient, set `grad` of its "
                "tensor to None or to what detach() gives."
            )
        rt.detach_(self)
        return self

    @property
    def data(self) -> Tensor:
        """A tensor over the same memory without history, whose changes in place autograd does not notice.

        Assigning lets this tensor stand for the memory of another one; hooks, ``grad`` and identity stay.

        Raises
        ------
        TypeError
            On assigning something else than a tensor.
        RuntimeError
            On assigning a tensor of a dtype that cannot have the gradients that this one has or wants.
        """
        return rt.data_of(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self.requires_grad and not value.dtype.inexact:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, not "
                f"{value.dtype}"
            )
        rt.set_data(self, value)

    def set_(self, source: Any = _NOTHING) -> Tensor:
        """Let this tensor stand for the memory of another one, as a change in place.

        Parameters
        ----------
        source : Tensor, optional
            Without it, the tensor has one dimension without elements.

        Raises
        ------
        TypeError
            If `source` is no tensor.
        RuntimeError
            If it has another dtype, or gradients are on and this tensor requires grad: the change has no derivative.

        Notes
        -----
        What was computed of a leaf before has the gradient of another tensor than what is computed of it from then on.
        """
        dtype = _field(self, _DTYPE)
        if source is _NOTHING:
            source = empty(0, dtype=self.dtype, device=self.device)
        if not isinstance(source, TensorBase):
            raise TypeError(f"set_(): argument 'source' must be Tensor, not {type(source).__name__}")
        if _field(source, _DTYPE) != dtype:
            raise RuntimeError(
                f"set_(): Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}"
            )
        if self.requires_grad and rt.get_mode() & GRAD_ENABLED:
            what = (
                "a leaf Variable that requires grad is being used in an in-place operation"
                if self.is_leaf
                else ("set_ has no derivative")
            )
            raise RuntimeError(f"set_(): {what}; call it under fastgrad.no_grad() or use .data")
        rt.set_data(self, source)
        rt.part_from_node(self)
        rt.bump(self)
        return self

    def is_inference(self) -> builtins.bool:
        """Whether it was made in inference mode."""
        return builtins.bool(_field(self, _FLAGS) & INFERENCE)

    @property
    def _base(self) -> Any:
        return rt.get_base(self)

    def _is_view(self) -> builtins.bool:
        return builtins.bool(_field(self, _FLAGS) & IS_VIEW)


def fill_with_zeros(grad: Any) -> None:
    """Fill a gradient that stays where it is with zeros; its history is forgotten."""
    if grad.grad_fn is None:
        grad.requires_grad_(False)  # it may be a view, which detach_ refuses
    else:
        grad.detach_()
    grad.zero_()
