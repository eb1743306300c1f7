"""Transforms that give Jacobians and Hessians: a pass for each row or column, over one recorded graph."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.func.batched import need_randomness, one_hot, stacked
from fastgrad.func.derivatives import LinearMap, Run, chosen_places
from fastgrad.func.trees import leaves_of, rebuilt
from fastgrad.functions.arguments import is_tensor
from fastgrad.functions.creation import zeros
from fastgrad.functions.shape import movedim


def _need_real(name: str, what: str, leaves: Sequence[Any]) -> None:
    """Refuse complex tensors: how their parts change with others takes two numbers, where a Jacobian has one.

    What is no tensor is for others to refuse.
    """
    for k, x in enumerate(leaves):
        if is_tensor(x) and x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {k}. "
                "func.jvp and func.vjp take complex tensors, and so does view_as_real"
            )


def _real_run(
    name: str, called: str, func: Callable[..., Any], args: Any, argnums: Any, has_aux: bool, kwargs: Any
) -> Run:
    """A function called on aliases of real inputs, with real outputs; `called` is how messages call that."""
    places = chosen_places(name, argnums, args)
    _need_real(name, "inputs", leaves_of(tuple(args[k] for k in places)))
    run = Run(name, func, args, places, has_aux, kwargs, may_change=name == "jacfwd")
    run.need_outputs(called)
    _need_real(name, "outputs", run.outputs)
    return run


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that gives the Jacobian of a function, row by row: a pass backward for each element of the output.

    Parameters
    ----------
    func : callable
        Returns a tensor or containers of tensors.
    argnums : int or tuple of int
        With regard to which arguments: tensors, or containers of such.
    has_aux : bool
        Whether `func` returns a pair: what to differentiate, and something to hand on.
    chunk_size : int, optional
        How many rows PyTorch computes at once. Passes run one after the other here, so that it only has to be positive.

    Returns
    -------
    callable
        It takes the arguments of `func` and returns, in the form of the output, for each tensor of it a Jacobian with
        regard to the argument, in the form of that: a tensor with the dimensions of the output, then those of the
        input.

    Raises
    ------
    ValueError
        If `chunk_size` is not positive.
    RuntimeError
        If the arguments to differentiate with regard to, or outputs, are complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.func.jacrev(lambda x: x * x)(fg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = _real_run("jacrev", "vjp(f, *primals)", func, args, argnums, has_aux, kwargs)
        watched = run.is_watched
        jacobians = []
        for output in run.outputs:
            rows = []
            for k in range(math.prod(output.shape)):
                grads = [one_hot(o, k) if o is output else zeros(o.shape, dtype=o.dtype) for o in run.outputs]
                rows.append(run.gradients(grads, True, watched))
            joined = [
                _joined([row[i] for row in rows], t, (*output.shape, *t.shape))
                for i, t in enumerate(run.inputs)
            ]
            jacobians.append(_as_argument(rebuilt(run.given, joined), argnums))
        result = rebuilt(run.result, jacobians)
        return (result, run.left(run.aux)) if has_aux else result

    return wrapper


def _as_argument(given: tuple[Any, ...], argnums: int | tuple[int, ...]) -> Any:
    return given if isinstance(argnums, tuple) else given[0]


def _joined(parts: Sequence[Any], like: Any, sizes: tuple[int, ...]) -> Any:
    """Tensors one after the other, in other sizes."""
    if not parts:
        return zeros(sizes, dtype=like.dtype, device=like.device)
    return stacked(parts).reshape(sizes)


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The function that gives the Jacobian of a function, column by column: tangents for each element of the input.

    Parameters
    ----------
    func : callable
        Returns a tensor or containers of tensors.
    argnums : int or tuple of int
        With regard to which arguments: tensors, or containers of such.
    has_aux : bool
        Whether `func` returns a pair: what to differentiate, and something to hand on.
    randomness : str
        As for `vmap`. The function runs once, so that its random numbers are the same for all columns.

    Returns
    -------
    callable
        See `jacrev`.

    Raises
    ------
    RuntimeError
        If the arguments to differentiate with regard to, or outputs, are complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.func.jacfwd(lambda x: x.sum() * x)(fg.tensor([1.0, 2.0]))
    tensor([[4., 1.],
            [2., 5.]])
    """
    need_randomness(randomness)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = _real_run("jacfwd", "jvp(f, primals, tangents)", func, args, argnums, has_aux, kwargs)
        linear, watched = LinearMap(run), run.is_watched
        columns: list[list[Any]] = [[] for _ in run.outputs]  # for each output its Jacobians by inputs
        for x in run.inputs:
            pushed = []
            for k in range(math.prod(x.shape)):
                tangents = [one_hot(t, k) if t is x else zeros(t.shape, dtype=t.dtype) for t in run.inputs]
                pushed.append(linear.push(tangents, watched))
            for j, output in enumerate(run.outputs):
                sizes = (*output.shape, *x.shape)
                if not pushed or pushed[0][j] is None:
                    columns[j].append(zeros(sizes, dtype=output.dtype, device=output.device))
                else:
                    columns[j].append(movedim(stacked([p[j] for p in pushed]), 0, -1).reshape(sizes))
        jacobians = [_as_argument(rebuilt(run.given, found), argnums) for found in columns]
        result = rebuilt(run.result, jacobians)
        return (result, run.left(run.aux)) if has_aux else result

    return wrapper


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of a function: ``jacfwd(jacrev(func))``.

    Parameters
    ----------
    func : callable
        Returns a tensor or containers of tensors.
    argnums : int or tuple of int
        With regard to which arguments: tensors, or containers of such.

    Returns
    -------
    callable
        It takes the arguments of `func` and returns a tensor with the dimensions of the output, then those of the input
        twice; in containers as `jacrev` returns them.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.func.hessian(lambda x: (x * x * x).sum())(fg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
