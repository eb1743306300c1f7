"""Products with Jacobians and Hessians of functions, and these matrices, by passes over the graph of one call.

They have the interface of ``torch.autograd.functional``. `fastgrad.func` has the same as transforms of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.autograd.engine import grad
from fastgrad.autograd.modes import enable_grad, is_grad_enabled, set_grad_enabled
from fastgrad.functions.creation import zeros
from fastgrad.functions.likeness import zeros_like
from fastgrad.functions.shape import stack
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.native.build.loader import TensorBase

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_STRATEGIES = ("forward-mode", "reverse-mode")
_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}.",
    "twice": "The gradient with respect to the input is independent of entry {} in the vectors that it begins with.",
    "second": "The jacobian of the user-provided function is independent of input {}.",
    "third": "The hessian of the user-provided function is independent of entry {} in the vectors that it begins with.",
}


def _tupled(value: Any, what: str, name: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether a value is a tuple, and it as one; TypeError if it holds anything but tensors."""
    several = isinstance(value, (tuple, list))
    found = tuple(value) if several else (value,)
    for k, x in enumerate(found):
        if not isinstance(x, TensorBase):
            which = f"the value at index {k}" if several else f"the given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but {which} has type "
                f"{type(x)}."
            )
    return several, found


def _outputs(value: Any, name: str) -> tuple[bool, tuple[Any, ...]]:
    """The same for what a function returned."""
    return _tupled(value, "outputs of the user-provided function", name)


def _prepared(tensors: Sequence[Any], create_graph: bool, needs: bool) -> tuple[Any, ...]:
    """Aliases with history where a graph is to be created, else leaves of their own."""
    if create_graph:
        return tuple(
            t.view_as(t) if t.requires_grad or not needs else t.detach().requires_grad_() for t in tensors
        )
    return tuple(t.detach().requires_grad_(needs) for t in tensors)


def _left(values: Sequence[Any], create_graph: bool, as_tuple: bool) -> Any:
    """Results as the caller gets them."""
    found = tuple(v if create_graph else v.detach() for v in values)
    return found if as_tuple else found[0]


def _need_like(v: Sequence[Any], others: Sequence[Any], is_tuple: bool) -> None:
    """Refuse vectors of other sizes than those of what they belong to."""
    if len(v) != len(others):
        if is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(others)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (x, other) in enumerate(zip(v, others, strict=True)):
        if x.shape != other.shape:
            entry = f"Entry {k} in v has" if is_tuple else "v has"
            raise RuntimeError(f"{entry} invalid size: should be {other.shape} but got {x.shape}.")


def _need_history(outputs: Sequence[Any], strict: bool) -> None:
    for k, o in enumerate(outputs if strict else ()):
        if not o.requires_grad:
            raise RuntimeError(
                f"Output {k} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )


def _need_second(jacobian: Sequence[Any], strict: bool) -> None:
    for k, j in enumerate(jacobian if strict else ()):
        if not j.requires_grad:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {k} is independent of the input. This is not allowed in strict mode. You should ensure that "
                "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], vectors: Sequence[Any] | None, create_graph: bool
) -> tuple[Any, ...]:
    """Gradients of those outputs that have a history; None where there are none. What the graph saved stays."""
    given = vectors if vectors is not None else (None,) * len(outputs)
    pairs = [(o, v) for o, v in zip(outputs, given, strict=True) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    found: tuple[Any, ...] = grad(
        [o for o, _ in pairs], inputs, [v for _, v in pairs], True, create_graph, allow_unused=True
    )
    return found


def _filled(
    found: Sequence[Any], like: Sequence[Any], strict: bool, create_graph: bool, stage: str
) -> tuple[Any, ...]:
    """Gradients with zeros where there are none, which `strict` refuses."""
    made = []
    for k, (g, other) in enumerate(zip(found, like, strict=True)):
        if g is None and strict:
            raise RuntimeError(f"{_INDEPENDENT[stage].format(k)} This is not allowed in strict mode.")
        if strict and create_graph and not g.requires_grad:
            what = "hessian" if stage == "second" else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {k}. This is not allowed in strict "
                "mode when create_graph=True."
            )
        made.append(zeros_like(other) if g is None else g)
    return tuple(made)


def _need_number(outputs: Sequence[Any], is_tuple: bool, name: str) -> None:
    if is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )


def _vectors(v: Any, name: str, like: Sequence[Any], is_tuple: bool, create_graph: bool, where: str) -> Any:
    """The vectors of a product as a tuple, or None where a single element needs none."""
    if v is not None:
        _, given = _tupled(v, "v", name)
        found = _prepared(given, create_graph, False)
        _need_like(found, like, is_tuple)
        return found
    if len(like) != 1 or like[0].numel() != 1:
        raise RuntimeError(f"The vector v can only be None if {where} a single Tensor with a single element.")
    return None


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What a function gives, and a vector times its Jacobian.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        In the sizes of the outputs; a single element may do without.
    create_graph : bool
        Record the computation, so that both results can be differentiated.
    strict : bool
        Raise where an output does not depend on an input, instead of giving zeros.

    Returns
    -------
    outputs, vjp : Tensor or tuple of Tensor
        The second in the form of `inputs`.

    Raises
    ------
    TypeError
        If inputs, outputs or `v` are no tensors.
    RuntimeError
        If `v` is missing or of other sizes, or `strict` is violated.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0])
    >>> fg.autograd.functional.vjp(lambda x: x * x, x, fg.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        several, given = _tupled(inputs, "inputs", "vjp")
        prepared = _prepared(given, create_graph, True)
        out_several, outputs = _outputs(func(*prepared), "vjp")
        _need_history(outputs, strict)
        where = "the user-provided function returns"
        vectors = _vectors(v, "vjp", outputs, out_several, create_graph, where)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _gradients(outputs, prepared, vectors, create_graph)
        product = _filled(found, prepared, strict, create_graph, "back")
    return _left(outputs, create_graph, out_several), _left(product, create_graph, several)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What a function gives, and its Jacobian times a vector, by two passes backward.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    v : Tensor or tuple of Tensor, optional
        In the sizes of the inputs; a single element may do without.

    Returns
    -------
    outputs, jvp : Tensor or tuple of Tensor
        Both in the form of the outputs.

    Raises
    ------
    TypeError
        If inputs, outputs or `v` are no tensors.
    RuntimeError
        If `v` is missing or of other sizes, or `strict` is violated.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0])
    >>> fg.autograd.functional.jvp(lambda x: x * x, x, fg.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        several, given = _tupled(inputs, "inputs", "jvp")
        prepared = _prepared(given, create_graph, True)
        vectors = _vectors(
            v, "jvp", prepared, several, create_graph, "the input to the user-provided function is"
        )
        out_several, outputs = _outputs(func(*prepared), "jvp")
        _need_history(outputs, strict)
        seeds = tuple(zeros_like(o.detach()).requires_grad_() for o in outputs)
        first = _gradients(outputs, prepared, seeds, True)
        pulled = _filled(first, prepared, strict, create_graph, "back")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _gradients(pulled, seeds, vectors, create_graph)
        product = _filled(found, outputs, strict, create_graph, "twice")
    return _left(outputs, create_graph, out_several), _left(product, create_graph, out_several)


def _one_hot(like: Any, index: int) -> Any:
    made = zeros(like.numel(), dtype=like.dtype, device=like.device)
    made[index] = 1
    return made.reshape(like.shape)


def _need_real_outputs(outputs: Sequence[Any]) -> None:
    """Refuse complex outputs: a pass for each element would tell how its real part changes."""
    for k, o in enumerate(outputs):
        if o.is_complex():
            raise RuntimeError(
                f"jacobian(): grad can be implicitly created only for real scalar outputs but got {o.dtype} for output "
                f'{k}; use vectorize=True with strategy="forward-mode", or real and imaginary parts'
            )


def _rows(
    outputs: Sequence[Any], prepared: Sequence[Any], create_graph: bool, strict: bool
) -> tuple[tuple[Any, ...], ...]:
    """The Jacobians of each output by each input, a pass for each element of an output."""
    made = []
    for k, o in enumerate(outputs):
        rows: list[list[Any]] = [[] for _ in prepared]
        for j in range(o.numel()):
            found = _gradients((o,), prepared, (_one_hot(o, j),), create_graph)
            for i, (g, x) in enumerate(zip(found, prepared, strict=True)):
                if strict and g is None:
                    raise RuntimeError(
                        f"Output {k} of the user-provided function is independent of input {i}. This is not allowed in "
                        "strict mode."
                    )
                if strict and create_graph and not g.requires_grad:
                    raise RuntimeError(
                        f"The jacobian of the user-provided function is independent of input {i}. This "
                        "is not allowed in "
                        "strict mode when create_graph=True."
                    )
                rows[i].append(zeros_like(x) if g is None else g)
        made.append(tuple(_joined(r, o, x) for r, x in zip(rows, prepared, strict=True)))
    return tuple(made)


def _joined(rows: Sequence[Any], output: Any, x: Any) -> Any:
    sizes = (*output.shape, *x.shape)
    if not rows:
        return zeros(sizes, dtype=x.dtype, device=x.device)
    return stack(rows).reshape(sizes)


def _columns(outputs: Sequence[Any], prepared: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """The same by two passes backward for each element of an input."""
    seeds = tuple(zeros_like(o.detach()).requires_grad_() for o in outputs)
    pulled = _gradients(outputs, prepared, seeds, True)
    made: list[list[Any]] = [[] for _ in outputs]
    for x, g in zip(prepared, pulled, strict=True):
        columns: list[list[Any]] = [[] for _ in outputs]
        for j in range(x.numel() if g is not None else 0):
            for k, column in enumerate(_gradients((g,), seeds, (_one_hot(x, j),), False)):
                columns[k].append(zeros_like(outputs[k].detach()) if column is None else column)
        for k, o in enumerate(outputs):
            sizes = (*o.shape, *x.shape)
            made[k].append(
                stack(columns[k], -1).reshape(sizes)
                if columns[k]
                else zeros(sizes, dtype=o.dtype, device=o.device)
            )
    return tuple(map(tuple, made))


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function: a pass backward for each element of the outputs, or two for each of the inputs.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    vectorize : bool
        How PyTorch runs the passes. Here one follows the other in compiled code, in any case; `strict` is refused, as
        in PyTorch.
    strategy : "reverse-mode" or "forward-mode"
        The second needs `vectorize`, as in PyTorch; it pays where there are more outputs than inputs.

    Returns
    -------
    Tensor or tuple of Tensor, or tuple of such
        For each output, if there are several, and for each input, if there are several, a tensor with the dimensions of
        the output and then of the input.

    Raises
    ------
    TypeError
        If inputs or outputs are no tensors.
    RuntimeError
        If `strict` is violated, or does not go with other arguments.
    NotImplementedError
        If other arguments do not go with "forward-mode".

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.autograd.functional.jacobian(lambda x: x * x, fg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    forward = strategy == "forward-mode"
    if forward and create_graph:
        raise NotImplementedError(
            'jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together. Please either set '
            '`create_graph=False` or `strategy="reverse-mode"`.'
        )
    if forward and strict:
        raise RuntimeError(
            'jacobian: `strict=True` and `strategy="forward-mode"` are not supported together. Please either set '
            '`strict=False` or `strategy="reverse-mode"`.'
        )
    if forward and not vectorize:
        raise NotImplementedError('jacobian: `strategy="forward-mode"` needs `vectorize=True`.')
    if strict and vectorize:
        raise RuntimeError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together. Please either set `strict=False` "
            "or `vectorize=False`."
        )
    with enable_grad():
        several, given = _tupled(inputs, "inputs", "jacobian")
        prepared = _prepared(given, create_graph, True)
        out_several, outputs = _outputs(func(*prepared), "jacobian")
        _need_history(outputs, strict)
        if not (forward or vectorize):
            _need_real_outputs(outputs)
        found = _columns(outputs, prepared) if forward else _rows(outputs, prepared, create_graph, strict)
    made = tuple(_left(by_input, create_graph, several) for by_input in found)
    return made if out_several else made[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one number as output.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    vectorize, outer_jacobian_strategy
        As `vectorize` and `strategy` for the `jacobian` of the gradient.

    Returns
    -------
    Tensor, or tuple of tuple of Tensor
        Where there are several inputs, a tensor for each pair.

    Raises
    ------
    TypeError
        If inputs or the output are no tensors.
    RuntimeError
        If the output is not one element, or `strict` is violated.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.autograd.functional.hessian(lambda x: (x * x * x).sum(), fg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    several, given = _tupled(inputs, "inputs", "hessian")

    def gradient(*values: Any) -> tuple[Any, ...]:
        # Forward mode differentiates values that are leaves: with `create_graph` they would be aliases of such.
        out_several, outputs = _outputs(func(*values), "hessian")
        _need_number(outputs, out_several, "hessian")
        _need_history(outputs, strict)
        found = _gradients(
            outputs, values, None if outputs[0].dim() == 0 else (zeros_like(outputs[0]) + 1,), True
        )
        made = _filled(found, values, strict, False, "back")
        _need_second(made, strict)
        return made

    found = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if several else found[0][0]


def _first_order(
    func: Callable[..., Any], inputs: Any, name: str, create_graph: bool, strict: bool
) -> tuple[bool, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Whether there are several inputs, what they became, the output, and the gradient with its history."""
    several, given = _tupled(inputs, "inputs", name)
    prepared = _prepared(given, create_graph, True)
    out_several, outputs = _outputs(func(*prepared), name)
    _need_number(outputs, out_several, name)
    _need_history(outputs, strict)
    found = _gradients(outputs, prepared, None, True)
    made = _filled(found, prepared, strict, False, "back")
    _need_second(made, strict)
    return several, prepared, outputs, made


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What a function with one number as output gives, and a vector times its Hessian.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    v : Tensor or tuple of Tensor, optional
        In the sizes of the inputs; a single element may do without.

    Returns
    -------
    output : Tensor
    vhp : Tensor or tuple of Tensor

    Raises
    ------
    TypeError
        If inputs, output or `v` are no tensors.
    RuntimeError
        If the output is not one element, `v` does not fit, or `strict` is violated.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0])
    >>> fg.autograd.functional.vhp(lambda x: (x * x * x).sum(), x, fg.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, given = _tupled(inputs, "inputs", "vhp")
        vectors = _vectors(
            v, "vhp", given, several, create_graph, "the input to the user-provided function is"
        )
        several, prepared, outputs, first = _first_order(func, inputs, "vhp", create_graph, strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _gradients(first, prepared, vectors, create_graph)
        product = _filled(found, prepared, strict, create_graph, "second")
    return _left(outputs, create_graph, False), _left(product, create_graph, several)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What a function with one number as output gives, and its Hessian times a vector, by three passes backward.

    `vhp` needs one pass less and gives the same where second derivatives are continuous.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        As for `vhp`.

    Returns
    -------
    output : Tensor
    hvp : Tensor or tuple of Tensor

    Raises
    ------
    TypeError
        If inputs, output or `v` are no tensors.
    RuntimeError
        If the output is not one element, `v` does not fit, or `strict` is violated.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0])
    >>> fg.autograd.functional.hvp(lambda x: (x * x * x).sum(), x, fg.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, given = _tupled(inputs, "inputs", "hvp")
        vectors = _vectors(
            v, "hvp", given, several, create_graph, "the input to the user-provided function is"
        )
        several, prepared, outputs, first = _first_order(func, inputs, "hvp", create_graph, strict)
        seeds = tuple(zeros_like(x.detach()).requires_grad_() for x in prepared)
        second = _gradients(first, prepared, seeds, True)
        pulled = _filled(second, prepared, strict, create_graph, "second")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _gradients(pulled, seeds, vectors, create_graph)
        product = _filled(found, prepared, strict, create_graph, "third")
    return _left(outputs, create_graph, False), _left(product, create_graph, several)


__getattr__ = _getattr_of(__name__)
