"""Gradients against finite differences: `gradcheck` and `gradgradcheck`.

Both Jacobians of every output by every input are compared: the numerical one, for which the memory of an input is moved
a little and put back, and the analytical one, of one backward pass for each row. Then comes what finite differences
cannot see: whether passes repeat, whether a zero that comes in gives zeros, and whether an output may be left without a
gradient. In fast mode both Jacobians are projected to random vectors, which takes two calls for each input and two
passes for each output, whatever their sizes. Forward mode is compared likewise, with one call for each direction.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd.engine import grad
from fastgrad.autograd.jacobians import Jacobians, as_tuple, memory_of, of_numbers, requires_grad, tensors
from fastgrad.functions.creation import tensor
from fastgrad.functions.likeness import zeros_like
from fastgrad.functions.shape import stack
from fastgrad.functions.sharing import from_numpy

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_SEED = 0x67726164  # the user's generators are left alone, and a failure can be repeated

_SLOW_PASSES = (
    "Element by element the Jacobians are close enough: their projections are not, where much of them cancels. Pass "
    "fast_mode=False to compare the elements."
)
_UNDEFINED_HINT = "Pass check_undefined_grad=False if that cannot happen to this function."


class GradcheckError(RuntimeError):
    """What `gradcheck` and `gradgradcheck` raise where a gradient is wrong."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients that backward passes compute with central differences.

    For every input x that requires grad and every output y that does, each element of the analytical Jacobian must
    be within ``atol + rtol * abs(n)`` of ``n = (y(x + eps * e) - y(x - eps * e)) / (2 * eps)``. Beyond that, a second
    pass must give the same gradients, gradients of zero must give zeros, and a pass must take an output without a
    gradient for one whose gradient is zero.

    Parameters
    ----------
    func : callable
        Takes `inputs`, returns a tensor or a tuple of tensors. It is called two times for each element of the
        inputs that require grad, and must give the same values for the same inputs.
    inputs : Tensor or tuple
        Its arguments, of any kind. At least one is a tensor that requires grad, leaf or not. Tensors that require
        grad should be float64. While `func` runs their memory is changed, and it is put back.
    eps : float
        The step of the differences.
    atol, rtol : float
        The absolute and the relative tolerance.
    raise_exception : bool
        Raise if a gradient is wrong, rather than return False.
    nondet_tol : float
        How far the gradients of two passes may differ.
    check_undefined_grad : bool
        Whether outputs may be left without a gradient is part of the check.
    check_grad_dtypes : bool
        Gradients must have the dtypes of their inputs.
    check_forward_ad, check_backward_ad : bool
        Compare the Jacobians of forward mode, of backward passes, or both. All that is said above of passes is for
        the latter.
    check_batched_grad, check_batched_forward_grad : bool
        Gradients (tangents) of several vectors at once, as `vmap` computes them, must be those of each.
    fast_mode : bool
        Compare ``v @ J @ u`` for fixed random vectors u and v in place of all elements of a Jacobian J.
    masked : bool, optional
        A gradient that should be zero may also be nearly so.

    Returns
    -------
    bool
        True; False if a gradient is wrong and `raise_exception` is not set.

    Raises
    ------
    GradcheckError
        If a gradient is wrong. The message names the output and the input by their places and shows both Jacobians.
    ValueError
        If no input requires grad.
    RuntimeError
        If an input that requires grad has a stride of zero, as `expand` makes them.
    AssertionError
        If `func` gives other shapes or dtypes for inputs that were moved by `eps`, or no kind of check is left.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=fg.float64, requires_grad=True)
    >>> fg.autograd.gradcheck(lambda x: (x.exp() @ x, x.sum()), x)
    True

    A hook makes a gradient twice as large as it should be:

    >>> def wrong(x):
    ...     y = x * 3
    ...     y.register_hook(lambda g: g * 2)
    ...     return y
    >>> fg.autograd.gradcheck(wrong, fg.ones(2, dtype=fg.float64, requires_grad=True))
    Traceback (most recent call last):
        ...
    fastgrad.autograd.gradcheck.GradcheckError: Jacobian mismatch for output 0 with respect to input 0,
    numerical:tensor([[3.0000, 0.0000],
            [0.0000, 3.0000]], dtype=fastgrad.float64)
    analytical:tensor([[6., 0.],
            [0., 6.]], dtype=fastgrad.float64)
    The maximal difference is 3, for element (0,) of the input and element (0,) of the output.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    arguments = as_tuple(inputs)
    _check_inputs(arguments)
    modes = _Modes(check_backward_ad, check_forward_ad, check_batched_grad, check_batched_forward_grad)
    options = _Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode, masked, modes
    )
    return _passes(func, func, arguments, options, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare gradients of gradients with central differences of gradients.

    This is `gradcheck` of the function that maps `inputs` and `grad_outputs` to the gradients of the inputs, as
    passes with ``create_graph=True`` compute them.

    Parameters
    ----------
    func : callable
        Takes `inputs`, returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple
        Its arguments; as for `gradcheck`.
    grad_outputs : Tensor or tuple of Tensor, optional
        The gradients of those outputs that require grad; by those that require grad themselves the gradients are
        differentiated too. By default fixed random numbers between -1 and 1, which all do.
    gen_non_contig_grad_outputs : bool
        The random `grad_outputs` are not contiguous.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode, masked
        As for `gradcheck`.
    check_batched_grad : bool
        As for `gradcheck`.
    check_fwd_over_rev, check_rev_over_rev : bool
        Differentiate gradients by forward mode, by backward passes, or by both.

    Returns
    -------
    bool
        As for `gradcheck`.

    Raises
    ------
    GradcheckError, ValueError, RuntimeError, AssertionError
        As for `gradcheck`. The outputs that messages count are the gradients of the inputs, and the inputs are
        `inputs` followed by `grad_outputs`. ValueError also if no output requires grad.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([0.1, 0.2, 0.3], dtype=fg.float64, requires_grad=True)
    >>> fg.autograd.gradgradcheck(lambda x: x.sigmoid() * x, x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    arguments = as_tuple(inputs)
    n = len(arguments)
    if grad_outputs is None:
        outputs = _differentiable(tensors(func(*arguments)))
        grad_outputs = _random_gradients(outputs, gen_non_contig_grad_outputs)
    arguments += as_tuple(grad_outputs)
    _check_inputs(arguments)
    if len(arguments) == n:
        raise ValueError(
            "gradgradcheck expects at least one output of func to require gradient, but none does."
        )

    def gradients(*args: Any, create_graph: bool = True) -> tuple[Any, ...]:
        outputs = _differentiable(tensors(func(*args[:n])))
        wanted = _differentiable(args[:n])
        found = grad(outputs, wanted, args[n:], create_graph=create_graph, allow_unused=True)
        return tuple(g for g in found if g is not None)

    modes = _Modes(check_rev_over_rev, check_fwd_over_rev, check_batched_grad, False)
    options = _Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode, masked, modes
    )
    values = partial(gradients, create_graph=False)
    return _passes(gradients, values, arguments, options, raise_exception)


# --- arguments ----------------------------------------------------------------------------------------------------


class _Modes(NamedTuple):
    """Which derivatives are compared: of backward passes, of forward mode, and of several vectors at once."""

    backward: bool
    forward: bool
    batched: bool
    batched_forward: bool


class _Options(NamedTuple):
    """What the parameters of the same names say."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    fast_mode: bool
    masked: bool | None
    modes: _Modes


def _differentiable(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(v for v in values if requires_grad(v))


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    """Refuse inputs of which nothing can be learnt; called by the public functions, for the sake of the warning."""
    if not _differentiable(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    for k, t in enumerate(inputs):
        if not requires_grad(t):
            continue
        if t.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point: it is {t.dtype.name}. "
                "This check will likely fail if all the inputs are not of double precision floating point.",
                stacklevel=3,
            )
        if t.is_conj() or t.is_neg():
            raise RuntimeError(
                f"gradcheck(): input {k} is a view of conjugates, or negatives, of what lies in its memory, where the "
                "differences would be made; give a copy, of .resolve_conj() or .resolve_neg()"
            )
        if any(step == 0 and size > 1 for step, size in zip(t.stride(), t.shape, strict=True)):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )


def _random_gradients(outputs: Sequence[Any], strided: bool) -> tuple[Any, ...]:
    """Numbers between -1 and 1 in the shapes of the outputs, as leaves that require grad."""
    rng = np.random.default_rng(_SEED)
    found = []
    for o in outputs:
        values = rng.uniform(-1, 1, tuple(o.shape)).astype(o.dtype.numpy)
        if o.is_complex():
            values = values + 1j * rng.uniform(-1, 1, tuple(o.shape))
            values = values.astype(o.dtype.numpy)
        if strided and values.ndim:
            found.append(from_numpy(np.repeat(values, 2, axis=-1)[..., ::2]).requires_grad_())
        else:
            found.append(tensor(values, requires_grad=True))
    return tuple(found)


# --- the check ----------------------------------------------------------------------------------------------------


def _passes(
    func: Callable[..., Any],
    values: Callable[..., Any],
    inputs: tuple[Any, ...],
    options: _Options,
    raise_exception: bool,
) -> bool:
    try:
        _Check(Jacobians(func, values, inputs, options.eps), options).run()
        if options.check_undefined_grad and options.modes.backward:
            _check_undefined(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Check:
    """What is asked of the function at one point; its methods raise where the answer is wrong."""

    def __init__(self, point: Jacobians, options: _Options) -> None:
        self.point, self.options = point, options

    def run(self) -> None:
        if self.options.fast_mode:
            self.compare_projections()
        else:
            self.compare_jacobians()
        if self.point.constant:
            return
        if self.options.modes.batched:
            self.compare_batched()
        if self.options.modes.batched_forward:
            self.compare_batched_forward()
        if self.options.modes.backward:
            self.expect_zero_of_zero()  # which frees the graph

    def compare_jacobians(self) -> None:
        point = self.point
        numerical = {k: point.numerical(k) for k in point.wanted}
        if point.constant:
            _expect_constant(numerical, 0.0)
            return
        for i, place in enumerate(point.places if self.options.modes.backward else []):
            for k, a in self.analytical(place, np.eye(memory_of(point.outputs[place]).size)).items():
                self.expect_equal(place, k, numerical[k][i], a)
        for k, t in point.wanted.items() if self.options.modes.forward else []:
            rows = [self.forward(k, direction) for direction in np.eye(memory_of(t).size)]
            for i, place in enumerate(point.places):
                size = memory_of(point.outputs[place]).size
                a = np.array([row[i] for row in rows]).reshape(len(rows), size)
                self.expect_equal(place, k, numerical[k][i], a, "computed with forward mode ")

    def expect_equal(
        self, place: int, k: int, numerical: np.ndarray, found: np.ndarray, how: str = ""
    ) -> None:
        """Raise if a Jacobian is not the numerical one."""
        if not self.close(found, numerical).all():
            raise GradcheckError(
                _mismatch(place, k, numerical, found, how) + self.difference(place, k, numerical, found)
            )

    def forward(self, k: int, direction: np.ndarray) -> list[np.ndarray]:
        """The derivatives of the outputs where input `k` moves in a direction, by forward mode, flat."""
        found = self.point.tangents(k, of_numbers(direction, self.point.wanted[k]))
        return [memory_of(t).reshape(-1) for t in found]

    def compare_projections(self) -> None:
        point, rng = self.point, np.random.default_rng(_SEED)
        along = {k: _unit_vector(rng, memory_of(t).size) for k, t in point.wanted.items()}
        weights = [_unit_vector(rng, memory_of(point.outputs[place]).size) for place in point.places]
        slopes = {k: point.directional(k, u) for k, u in along.items()}
        if point.constant:
            _expect_constant(slopes, self.options.nondet_tol)
            return
        for i, (place, v) in enumerate(zip(point.places, weights, strict=True)):
            for k, product in self.analytical(place, v[None]).items() if self.options.modes.backward else []:
                u = along[k]
                a, n = u @ product[:, 0], v @ slopes[k][i]
                if not self.close(a, n, u.sum() * v.sum()):
                    raise GradcheckError(_mismatch(place, k, n, a) + self.in_slow_mode(place, k))
        for k, u in along.items() if self.options.modes.forward else []:
            tangents = self.forward(k, u)
            for i, (place, v) in enumerate(zip(point.places, weights, strict=True)):
                a, n = v @ tangents[i], v @ slopes[k][i]
                if not self.close(a, n, u.sum() * v.sum()):
                    raise GradcheckError(_mismatch(place, k, n, a, "computed with forward mode "))

    def compare_batched(self) -> None:
        """Gradients of two vectors at once must be those of each."""
        point, rng = self.point, np.random.default_rng(_SEED)
        for place in point.places:
            vectors = rng.random((2, memory_of(point.outputs[place]).size))
            each = [list(found) for found in point.passes(place, vectors)]
            together = point.batched_passes(place, vectors)
            for j, k in enumerate(point.wanted):
                self.expect_batched(
                    f"output {place} and input {k}", together[j], [found[j] for found in each]
                )

    def compare_batched_forward(self) -> None:
        """The same of tangents."""
        vmap = importlib.import_module(
            "fastgrad.func"
        ).vmap  # few programs need it, and it stands on this package
        point, rng = self.point, np.random.default_rng(_SEED)
        for k, t in point.wanted.items():
            vectors = [of_numbers(v, t) for v in rng.random((2, memory_of(t).size))]
            together = vmap(partial(point.tangents, k))(stack(vectors))
            each = [point.tangents(k, v) for v in vectors]
            for i, place in enumerate(point.places):
                self.expect_batched(
                    f"output {place} and input {k}", together[i], [found[i] for found in each]
                )

    def expect_batched(self, which: str, together: Any, each: list[Any]) -> None:
        """Raise if what was computed at once is not what was computed one by one."""
        if together is None and each[0] is None:
            return
        pairs = [np.zeros(()) if g is None else memory_of(g) for g in (together, *each)]
        if not self.close(pairs[0], np.stack(pairs[1:])).all():
            raise GradcheckError(
                f"While testing batched gradient computation, for {which} vmap gave\n{_shown(pairs[0])}\n"
                f"but one by one it is\n{_shown(np.stack(pairs[1:]))}"
            )

    def in_slow_mode(self, place: int, k: int) -> str:
        """Both Jacobians, for a message about their projections."""
        n = self.point.numerical(k)[self.point.places.index(place)]
        a = self.products(place, np.eye(n.shape[1]))[k]
        return (
            "These are projections to random vectors, which is what fast mode compares. The Jacobians themselves are\n"
            f"Numerical:\n{_shown(n)}\nAnalytical:\n{_shown(a)}\n"
            + (_SLOW_PASSES if self.close(a, n).all() else self.difference(place, k, n, a))
        )

    def close(self, analytical: Any, numerical: Any, scale: float = 1.0) -> Any:
        """Where the values agree; `scale` is by how much a projection multiplies what is tolerated."""
        return np.isclose(analytical, numerical, self.options.rtol, self.options.atol * scale)

    def difference(self, place: int, k: int, numerical: np.ndarray, analytical: np.ndarray) -> str:
        """Where the Jacobians are farthest apart."""
        with np.errstate(all="ignore"):
            beyond = np.abs(analytical - numerical)
        beyond[self.close(analytical, numerical)] = 0.0
        flat = np.unravel_index(beyond.argmax(), beyond.shape)
        of_input, of_output = (
            tuple(map(int, np.unravel_index(index, memory_of(t).shape)))
            for index, t in zip(flat, (self.point.wanted[k], self.point.outputs[place]), strict=True)
        )
        return (
            f"The maximal difference is {beyond[flat]:.6g}, for element {of_input} of the input and element "
            f"{of_output} of the output."
        )

    def analytical(self, place: int, vectors: np.ndarray) -> dict[int, np.ndarray]:
        """As `products`, computed twice."""
        first, second = (self.products(place, vectors) for _ in range(2))
        for k in first:
            with np.errstate(all="ignore"):
                apart = np.abs(first[k] - second[k]).max(initial=0.0)
            if apart > self.options.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    f"gives different values: two gradients of output {place} with respect to input {k} are "
                    f"{apart:.6g} apart. The tolerance for nondeterminism was {self.options.nondet_tol}; a larger "
                    "nondet_tol lets them pass."
                )
        return first

    def products(self, place: int, vectors: np.ndarray) -> dict[int, np.ndarray]:
        """For every input that requires grad the products of the Jacobian with each of the vectors, as columns."""
        wanted = self.point.wanted
        found = {k: np.zeros((memory_of(t).size, len(vectors))) for k, t in wanted.items()}
        for column, gradients in enumerate(self.point.passes(place, vectors)):
            for (k, t), g in zip(wanted.items(), gradients, strict=True):
                if g is None:
                    continue
                if g.shape != t.shape:
                    raise GradcheckError(
                        f"Analytical gradient has incorrect size: {tuple(g.shape)} for input {k} of {tuple(t.shape)}"
                    )
                if self.options.check_grad_dtypes and g.dtype is not t.dtype:
                    raise GradcheckError(
                        f"Gradient has dtype mismatch: {g.dtype.name} for input {k} of {t.dtype.name}"
                    )
                found[k][:, column] = memory_of(g).reshape(-1)
        return found

    def expect_zero_of_zero(self) -> None:
        outputs = [self.point.outputs[place] for place in self.point.places]
        for k, value in _gradients_of_zeros(outputs, self.point.wanted).items():
            if not (np.allclose(value, 0) if self.options.masked else (value == 0).all()):
                raise GradcheckError(
                    "backward not multiplied by grad_output: where all gradients of the outputs are zero, that of "
                    f"input {k} is not, but {_shown(value)}"
                )


def _check_undefined(func: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """No gradient for some of the outputs and zeros for the others must give zeros, or no gradients."""
    wanted = {k: t for k, t in enumerate(inputs) if requires_grad(t)}
    places = [k for k, o in enumerate(tensors(func(*inputs))) if o.requires_grad]
    single = [[place] for place in places] if len(places) > 1 else []
    for undefined in [places, *single] if places else []:
        now = tensors(func(*inputs))
        outputs = [_without_gradient(now[k]) if k in undefined else now[k] for k in places]
        without = f"without a gradient for output {', '.join(map(str, undefined))}"
        try:
            gradients = _gradients_of_zeros(outputs, wanted)
        except RuntimeError as error:
            raise GradcheckError(
                f"Expected backward function to handle undefined output grads, but {without} it raised "
                f"{type(error).__name__}: {error}. {_UNDEFINED_HINT}"
            ) from error
        for k, value in gradients.items():
            if not (value == 0).all():
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or "
                    "zero, but "
                    f"{without} that of input {k} is {_shown(value)}. {_UNDEFINED_HINT}"
                )


def _gradients_of_zeros(outputs: Sequence[Any], wanted: dict[int, Any]) -> dict[int, np.ndarray]:
    found = grad(outputs, list(wanted.values()), [zeros_like(o) for o in outputs], allow_unused=True)
    return {k: memory_of(g) for k, g in zip(wanted, found, strict=True) if g is not None}


def _without_gradient(output: Any) -> Any:
    """A copy whose pass hands no gradient on."""
    copy = output.clone()
    copy.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (None,))
    return copy


def _expect_constant(slopes: dict[int, list[np.ndarray]], tolerance: float) -> None:
    """Outputs that do not require grad must not depend on the inputs that do."""
    for k, found in slopes.items():
        for slope in found:
            if (np.abs(slope) > tolerance).any():
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero, because no output requires grad; with "
                    f"respect to input {k} it is {_shown(slope)}"
                )


def _unit_vector(rng: np.random.Generator, size: int) -> np.ndarray:
    vector = rng.random(size)
    return vector / np.linalg.norm(vector)  # type: ignore[no-any-return]


def _shown(values: Any) -> str:
    return repr(tensor(np.asarray(values)))


def _mismatch(place: int, k: int, numerical: Any, analytical: Any, how: str = "") -> str:
    return (
        f"Jacobian {how}mismatch for output {place} with respect to input {k},\n"
        f"numerical:{_shown(numerical)}\nanalytical:{_shown(analytical)}\n"
    )
