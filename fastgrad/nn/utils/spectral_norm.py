"""Spectral normalization by a forward pre-hook (Miyato et al., arXiv:1802.05957)."""

from __future__ import annotations

from typing import Any, TypeVar

from fastgrad import linalg
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import need_type
from fastgrad.nn.functional.normalization import normalize
from fastgrad.nn.modules.conv import _ConvNd
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

_M = TypeVar("_M", bound=Module)


def as_matrix(weight: Any, dim: int) -> Any:
    """A weight as a matrix with a row for each place along a dimension."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.size(0), -1)


def unit_vector(like: Any, size: int, eps: float) -> Any:
    """A random direction."""
    return normalize(like.new_empty(size).normal_(0, 1), dim=0, eps=eps)


def usual_dim(module: Module) -> int:
    """The dimension of a module's weight that counts its outputs."""
    return 1 if isinstance(module, _ConvNd) and module.transposed else 0


def need_iterations(n_power_iterations: int) -> int:
    """The number of iterations, if it is positive."""
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
        )
    return n_power_iterations


class SpectralNorm:
    """The forward pre-hook that divides a weight by its largest singular value, as far as it is known.

    Attributes
    ----------
    name : str
        Of the weight; ``<name>_orig`` is the parameter, ``<name>_u`` and ``<name>_v`` are the singular vectors.
    dim, n_power_iterations : int
    eps : float
    """

    _version: int = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        self.name = name
        self.dim = dim
        self.n_power_iterations = need_iterations(n_power_iterations)
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight with a row for each output."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """``W / (u @ W @ v)``; with power iterations, which change u and v in place, ahead of it."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the graphs of several calls live side by side
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, of the value that it has now."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the weight, ahead of the module's forward."""
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix: Any, u: Any, target_sigma: Any) -> Any:
        """A vector v for which u is the direction of ``W @ v`` and ``u @ W @ v`` the singular value."""
        v = linalg.pinv(matrix.t().mm(matrix)).mv(matrix.t().mv(u))
        return v.mul_(target_sigma / u.dot(matrix.mv(v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace a parameter, and register the hooks."""
        need_type("spectral_norm", module, Module, "module")
        for present in module._forward_pre_hooks.values():
            if isinstance(present, SpectralNorm) and present.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        if name not in module._parameters:
            raise KeyError(f"spectral_norm: {type(module).__name__} has no parameter '{name}'")
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with no_grad():
            rows, columns = hook.reshape_weight_to_matrix(weight).size()
            u, v = unit_vector(weight, rows, eps), unit_vector(weight, columns, eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)  # no parameter, but to be found
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormLoadStateDictPreHook:
    """Brings state dicts of version 0, which have the weight itself and no v, into today's form.

    Parameters
    ----------
    fn : SpectralNorm
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        *_: Any,
    ) -> None:
        """Replace the weight in `state_dict` by v, if it has one."""
        hook = self.fn
        version = local_metadata.get("spectral_norm", {}).get(f"{hook.name}.version", None)
        key = prefix + hook.name
        if version is not None and version >= 1:
            return
        if (
            version is None
            and key not in state_dict
            and all(key + s in state_dict for s in ("_orig", "_u", "_v"))
        ):
            return  # of today's form, but put together by hand
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            original, weight = state_dict[f"{key}_orig"], state_dict[key]
            matrix = hook.reshape_weight_to_matrix(original)
            v = hook._solve_v_and_rescale(matrix, state_dict[f"{key}_u"], (original / weight).mean())
            del state_dict[key]
            state_dict[f"{key}_v"] = v


class SpectralNormStateDictHook:
    """Writes the version of spectral normalization to the metadata of a state dict.

    Parameters
    ----------
    fn : SpectralNorm
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        """Write it."""
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: _M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> _M:
    """Divide a weight by its largest singular value, before each call of the module.

    That value is ``u @ W @ v``, where `n_power_iterations` steps of the power method improve u and v in each call in
    training mode.

    Parameters
    ----------
    module : Module
    name : str
        Of a parameter. ``<name>_orig`` takes its place; ``<name>_u`` and ``<name>_v`` are buffers.
    n_power_iterations : int
    eps : float
        The least norm by which vectors are divided.
    dim : int, optional
        The dimension of outputs: 0, and 1 for transposed convolutions, if not given. All others are the columns of W.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    RuntimeError
        If the weight is normalized already.
    ValueError
        If the parameter is None, or `n_power_iterations` is not positive.
    KeyError
        If there is no such parameter.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.utils.spectral_norm(fg.nn.Linear(3, 4))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, usual_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: _M, name: str = "weight") -> _M:
    """Undo `spectral_norm`: the weight is a parameter again, of the value that it has now.

    Parameters
    ----------
    module : Module
    name : str

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If the weight is not normalized.
    """
    need_type("remove_spectral_norm", module, Module, "module")
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, hook in hooks.items():
            bare = getattr(hook, "hook", hook)  # hooks of loading are wrapped
            mine = isinstance(bare, (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook))
            if mine and bare.fn.name == name:
                del hooks[key]
                break
    return module
