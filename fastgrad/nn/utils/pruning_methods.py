"""Ways to choose what of a parameter becomes zero; `fastgrad.nn.utils.prune` has them all."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import need_type
from fastgrad.functions.creation import rand
from fastgrad.functions.likeness import ones_like, zeros_like
from fastgrad.functions.sorting import topk
from fastgrad.functions.statistics import norm
from fastgrad.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
]


class BasePruningMethod(ABC):
    """A way to choose what of a parameter becomes zero; subclasses define `compute_mask` and ``PRUNING_TYPE``.

    The type is ``"unstructured"`` if single elements are chosen, ``"structured"`` if slices along ``self.dim`` are,
    ``"global"`` if the mask is one of all elements. The object is a forward pre-hook of the module, which computes the
    parameter as ``<name>_mask * <name>_orig``.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the parameter, ahead of the module's forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask.

        Parameters
        ----------
        t : Tensor
            What tells how important the elements are.
        default_mask : Tensor
            The mask so far; what is masked there stays so.

        Returns
        -------
        Tensor
            Of the sizes of `t`, with zeros and ones.
        """

    def apply_mask(self, module: Module) -> Any:
        """The parameter as it was, times the mask."""
        if getattr(self, "_tensor_name", None) is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter, further if it is pruned already.

        Parameters
        ----------
        module : Module
        name : str
            Of a parameter. ``<name>_orig`` takes its place, and ``<name>_mask`` is a buffer.
        *args, **kwargs
            For the constructor.
        importance_scores : Tensor, optional
            Of the parameter's sizes, to choose by; the parameter itself by default.

        Returns
        -------
        BasePruningMethod
            The hook.

        Raises
        ------
        AssertionError
            If the scores have other sizes, or there are two hooks of the parameter.
        AttributeError
            If there is no such parameter.
        """
        need_type(cls.__name__, module, Module, "module")
        method = cls(*args, **kwargs)
        method._tensor_name = name
        old = {
            key: hook
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        }
        if len(old) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a "
                "PruningContainer."
            )
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        hook: BasePruningMethod = method
        mask = ones_like(original)
        if old:
            (present,) = old.values()
            methods = tuple(present) if isinstance(present, PruningContainer) else (present,)
            hook = PruningContainer(*methods)
            hook._tensor_name = name
            hook.add_pruning_method(method)
            mask = getattr(module, f"{name}_mask").detach().clone()
        elif name not in module._parameters:
            raise AttributeError(f"{cls.__name__}: {type(module).__name__} has no parameter '{name}'")
        with no_grad():
            mask = hook.compute_mask(importance_scores, default_mask=mask)
        if mask.shape != original.shape:
            raise RuntimeError(
                f"{cls.__name__}: expected a mask of shape {tuple(original.shape)} for '{name}', but got "
                f"{tuple(mask.shape)}"
            )
        for key in old:
            del module._forward_pre_hooks[key]
        if not old:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor times the mask that is computed for it.

        Parameters
        ----------
        t : Tensor
        default_mask : Tensor, optional
            Ones if not given.
        importance_scores : Tensor, optional
            To choose by, instead of `t`.

        Returns
        -------
        Tensor

        Raises
        ------
        AssertionError
            If the scores have other sizes.
        """
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{importance_scores.shape} vs {t.shape}"
            )
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the parameter one again, with what is masked being zero for good; the hook stays."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[f"{name}_orig"]
        original.data = weight.data
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Methods that have pruned one parameter, one after the other.

    Parameters
    ----------
    *args : BasePruningMethod
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if args:
            first = need_type("PruningContainer", args[0], BasePruningMethod, "args")
            self._tensor_name = first._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method, of the same parameter.

        Raises
        ------
        TypeError
            If it is none.
        ValueError
            If it is of another parameter.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask so far, and in it that of the last method, which sees what is not masked yet.

        Raises
        ------
        AttributeError
            If that method is a structured one without ``dim``.
        ValueError
            If its ``PRUNING_TYPE`` is none of those that there are.
        """
        method: Any = self._pruning_methods[-1]
        place = _unmasked(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        with no_grad():
            mask[place] = method.compute_mask(t[place], default_mask=default_mask[place]).to(dtype=mask.dtype)
        return mask


def _unmasked(method: Any, t: Any, mask: Any) -> Any:
    """The index of what a method may prune."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    everything = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        dim = method.dim + t.dim() if method.dim < 0 else method.dim
        if not 0 <= dim < t.dim():
            raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
        everything[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(everything)


# --- the methods ------------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Masks nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask so far."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        """Prune a parameter, see `BasePruningMethod.apply`."""
        return super().apply(module, name)


class _OfAmount(BasePruningMethod):
    """A method that masks a number of elements or slices, or a fraction of them.

    Parameters
    ----------
    amount : int or float
        How many; a float from 0 to 1 is a fraction.

    Raises
    ------
    TypeError
        If `amount` is no number.
    ValueError
        If it is negative, or a fraction of more than one.
    """

    amount: Any

    def __init__(self, amount: Any) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        whole = isinstance(amount, numbers.Integral)
        if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
            )
        self.amount = amount

    def _number(self, size: int) -> int:
        """How many of `size` are masked."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        number = int(self.amount)
        if number > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={size}"
            )
        return number


class _Unstructured(_OfAmount):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask so far without the elements of the least scores."""
        number = self._number(t.nelement())
        mask = default_mask.clone()
        if number:
            least = topk(self._scores(t).reshape(-1), number, largest=False).indices
            flat = mask.reshape(-1)
            flat[least] = 0
            mask = flat.view(mask.shape)
        return mask

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Masks elements at random.

    Parameters
    ----------
    amount : int or float
        How many; a float from 0 to 1 is a fraction.
    """

    def _scores(self, t: Any) -> Any:
        return rand(t.shape, device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Any:  # type: ignore[override]
        """Prune a parameter, see `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Masks the elements of the least magnitude.

    Parameters
    ----------
    amount : int or float
        How many; a float from 0 to 1 is a fraction.
    """

    def _scores(self, t: Any) -> Any:
        return t.detach().abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Any = None
    ) -> Any:
        """Prune a parameter, see `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_OfAmount):
    PRUNING_TYPE = "structured"
    dim: int

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask so far without the slices of the least scores.

        Raises
        ------
        ValueError
            If the tensor has fewer than two dimensions.
        IndexError
            If it has no such dimension.
        """
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        number = self._number(size)
        if number == 0:
            return default_mask
        kept = topk(self._scores(t), size - number).indices
        mask = zeros_like(t.detach())
        mask.index_fill_(self.dim, kept, 1)
        return mask * default_mask.to(dtype=mask.dtype)

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError


class RandomStructured(_Structured):
    """Masks slices at random.

    Parameters
    ----------
    amount : int or float
        How many; a float from 0 to 1 is a fraction.
    dim : int
        The dimension along which they lie.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Any) -> Any:
        return rand(t.shape[self.dim], device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Any:  # type: ignore[override]
        """Prune a parameter, see `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Masks the slices of the least norm.

    Parameters
    ----------
    amount : int or float
        How many; a float from 0 to 1 is a fraction.
    n : float or "fro"
        The order of the norm, see `fastgrad.norm`.
    dim : int
        The dimension along which the slices lie.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def _scores(self, t: Any) -> Any:
        return norm(t.detach(), self.n, [d for d in range(t.dim()) if d != self.dim % t.dim()])

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        """Prune a parameter, see `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Masks what a mask says.

    Parameters
    ----------
    mask : Tensor
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Both masks together.

        Raises
        ------
        AssertionError
            If their sizes differ.
        """
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Any) -> Any:  # type: ignore[override]
        """Prune a parameter, see `BasePruningMethod.apply`."""
        return super().apply(module, name, mask=mask)
