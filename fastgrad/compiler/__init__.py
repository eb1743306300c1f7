"""Compiled steps: functions whose calls are recorded once and then replayed by compiled code (docs/compile.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compile", "explain", "is_compiling", "reset"]

_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(  # noqa: A001 - PyTorch's name
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function, or a module, whose calls are recorded once and then replayed by compiled code.

    The first call with tensors of some sizes, dtypes and strides runs as always, and what it launches is recorded:
    forward, and backward passes and optimizer steps where the function has them. Later calls that look alike run the
    launches alone, on the tensors that they bring. A function that only computes gives tensors with a history of one
    node, whose backward is a recording as well.

    A call that differs in anything that the function may have decided by is recorded anew: sizes, dtypes, strides,
    flags of tensors, numbers among the arguments, modes, closures, globals, attributes of modules and of
    optimizers, hooks. What cannot be replayed runs as it does without `compile`; `explain` says why.

    Parameters
    ----------
    model : callable or Module, optional
        Without it, a decorator.
    fullgraph : bool, default False
        Raise where a call cannot be replayed.
    dynamic : bool, optional
        Accepted for PyTorch's sake. Other sizes are another recording.
    backend : str, default "inductor"
        Accepted for PyTorch's sake; ``"eager"`` lets the function be.
    mode : str, optional
        One of PyTorch's; all mean the same.
    options : dict, optional
        Not supported; must be empty.
    disable : bool, default False
        Let the function be.

    Returns
    -------
    callable
        For a module a module, with the same parameters, whose attribute ``_orig_mod`` the given one is.

    Raises
    ------
    TypeError
        If `model` is no callable, or `backend` no text.
    RuntimeError
        If `mode` is none of PyTorch's, or `options` are given; in a call, if `fullgraph` is wanted and impossible.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.ones(3, requires_grad=True)
    >>> @fg.compile
    ... def loss(x):
    ...     return (x * w).sum()
    >>> for _ in range(3):
    ...     w.grad = None
    ...     loss(fg.tensor([1.0, 2.0, 3.0])).backward()
    >>> w.grad
    tensor([1., 2., 3.])
    >>> print(fg.compile.explain(loss))  # doctest: +ELLIPSIS
    loss: 1 signatures...
    """
    if mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(map(str, _MODES[1:]))}")
    if options:
        raise RuntimeError(f"compile: options are not supported, but got {sorted(options)}")
    if not isinstance(backend, str):
        raise TypeError(
            f"compile: backend must be a str, as backends of one's own are not supported, but got {backend!r}"
        )
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, disable=disable
        )
    if not callable(model):
        raise TypeError(f"compile: expected a function or a module, but got {type(model).__name__}")
    if disable or backend == "eager":
        return model
    from fastgrad.compiler.modules import compiled

    return compiled(model, bool(fullgraph))


def explain(function: Callable[..., Any]) -> Any:
    """What is recorded of a compiled function, and why calls were not replayed.

    Parameters
    ----------
    function : callable
        What `compile` returned.

    Returns
    -------
    Explanation
        Its text is for people; `signatures` is a list with what stands in it.

    Raises
    ------
    TypeError
        If `function` is not compiled.
    """
    from fastgrad.compiler.explanations import explanation_of

    return explanation_of(function)


def reset() -> None:
    """Forget all recordings."""
    from fastgrad.compiler.compiled import forget_all

    forget_all()


def is_compiling() -> bool:
    """Whether a call of a compiled function is being recorded.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.compiler.is_compiling()
    False
    """
    from fastgrad.compiler.compiled import is_recording

    return is_recording()


compile.explain = explain  # type: ignore[attr-defined]
