"""`gradcheck` and `gradgradcheck`: what passes, what is caught, and what the messages say."""

from __future__ import annotations

import importlib
import itertools
import re
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.autograd import gradcheck, gradgradcheck
from fastgrad.autograd.gradcheck import GradcheckError
from fastgrad.autograd.jacobians import Jacobians

CHECKS = ("gradcheck", "gradgradcheck")
MODES = {"slow": {}, "fast": {"fast_mode": True}}


class Case(NamedTuple):
    """A function of a library and of tensors with these shapes, all of which require grad."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def inputs_of(lib: ModuleType, case: Case) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    flat = [(rng.uniform(0.5, 1.5, int(np.prod(shape))).tolist(), shape) for shape in case.shapes]
    return tuple(lib.tensor(v, dtype=lib.float64).reshape(shape).requires_grad_() for v, shape in flat)


def function_of(lib: ModuleType, case: Case) -> Callable[..., Any]:
    return lambda *tensors: case.function(lib, *tensors)


def checked(lib: ModuleType, check: str, case: Case, **options: Any) -> bool:
    return getattr(lib.autograd, check)(function_of(lib, case), inputs_of(lib, case), **options)


def hooked(tensor: Any, hook: Callable[[Any], Any]) -> Any:
    """The tensor, with a hook that lets an undefined gradient be."""
    tensor.register_hook(lambda g: None if g is None else hook(g))
    return tensor


RIGHT = {
    "product": Case(lambda lib, a, b: a * b, ((2, 3), (3,))),
    "several outputs": Case(lambda lib, a, b: (a @ b, a.exp().sum(), b.sum(0) * 2), ((2, 3), (3, 2))),
    "list of outputs": Case(lambda lib, a: [a * a, a.exp()], ((3,),)),
    "outputs of one node": Case(lambda lib, a: (a * a).unbind(0), ((3, 2),)),
    "views": Case(lambda lib, a: a.t().reshape(-1)[1:5].view(2, 2) ** 3, ((2, 3),)),
    "view of an input": Case(lambda lib, a: a.t()[1:], ((2, 3),)),
    "input as output": Case(lambda lib, a, b: (a, b * 2), ((2,), (2,))),
    "0-dim": Case(lambda lib, a, b: a.sin() * b, ((), ())),
    "empty": Case(lambda lib, a: a.exp(), ((0, 3),)),
    "empty input beside another": Case(lambda lib, a, b: (a.sum() * b, a * 2), ((2, 0), (2,))),
    "empty output": Case(lambda lib, a: (a * a, a[:0].exp()), ((3,),)),
    "unused input": Case(lambda lib, a, b: a * a, ((2,), (3,))),
    "output without grad": Case(lambda lib, a: (a * a, lib.ones(2, dtype=lib.float64)), ((2,),)),
    "indices beside values": Case(lambda lib, a: (a * a).max(1), ((2, 3),)),
    "linear": Case(lambda lib, a: a + 1, ((2,),)),
    "in place": Case(lambda lib, a, b: a.clone().mul_(b).exp_(), ((2, 2), (2,))),
    "reductions": Case(lambda lib, a: a.logsumexp(1) * a.amax(), ((2, 3),)),
    "loss": Case(lambda lib, a: lib.nn.functional.cross_entropy(a, lib.tensor([2, 0])), ((2, 3),)),
    "hook that looks": Case(lambda lib, a: hooked(a * a, lambda g: None), ((2,),)),
    "hook that copies": Case(lambda lib, a: hooked(a * a, lambda g: g * 1), ((2,),)),
}

WRONG = {
    "scaled": Case(lambda lib, a: hooked(a * a, lambda g: g * 2), ((2, 2),)),
    "scaled for one output": Case(lambda lib, a: (a.exp(), hooked(a * a, lambda g: g * 1.01)), ((3,),)),
    "scaled for one input": Case(lambda lib, a, b: hooked(a * 1, lambda g: -g) * b, ((2,), (2,))),
    "one element": Case(lambda lib, a: hooked(a * a, lambda g: g * lib.tensor([1.0, 1.0, 0.0])), ((3,),)),
    "0-dim": Case(lambda lib, a: hooked(a * a, lambda g: g / 2), ((),)),
    "detached": Case(lambda lib, a: a * a.detach(), ((3,),)),
    "not recorded": Case(lambda lib, a: a.detach() * 2, ((3,),)),
    "nan": Case(lambda lib, a: hooked(a * a, lambda g: g * float("nan")), ((3,),)),
    "plus one": Case(lambda lib, a: hooked(a * a, lambda g: g + 1), ((3,),)),
}

# Right gradients with wrong derivatives: the factor is one, but not its gradient.
WRONG_SECOND = {
    "scaled gradient": Case(lambda lib, a: hooked(a * a, lambda g: g * (a / a.detach())), ((3,),)),
    "detached gradient": Case(lambda lib, a: hooked(a.exp(), lambda g: g.detach()), ((2, 2),)),
}


# --- right functions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_pass(check: str, name: str, options: dict[str, Any]):
    assert checked(fg, check, RIGHT[name], **options) is True


def test_inputs_are_put_back_and_get_no_grad():
    x = fg.tensor([0.1, 0.7, 1e16], dtype=fg.float64, requires_grad=True)
    before = x.detach().clone()
    assert gradcheck(lambda x: x * 2, x, atol=3e6)
    assert gradgradcheck(lambda x: x * 2, x)
    assert x.tolist() == before.tolist()
    assert x.grad is None
    assert x._version == 0


def test_inputs_are_put_back_when_the_function_raises():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    calls = itertools.count()

    def function(x: Any) -> Any:
        if next(calls) == 2:
            raise KeyError("third call")
        return x * 2

    with pytest.raises(KeyError, match="third call"):
        gradcheck(function, x)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_inputs_of_all_layouts(check: Callable[..., bool], options: dict[str, Any]):
    rng = np.random.default_rng(0)
    base = fg.tensor(rng.normal(size=(4, 3)), requires_grad=True)
    transposed = fg.tensor(rng.normal(size=(3, 2))).t().requires_grad_()
    strided = fg.from_numpy(rng.normal(size=(2, 6))[:, ::2]).requires_grad_()
    computed = base.exp()[1:3]
    assert not transposed.is_contiguous()
    assert not strided.is_contiguous()
    assert check(lambda a, b, c: a * b.exp() + c**2, (transposed, strided, computed), **options)
    assert check(lambda x: x.sin(), base[:, 1], **options)


def test_inputs_that_are_not_differentiated():
    x = fg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=fg.float64, requires_grad=True)
    weights, index = fg.tensor([2.0, 3.0]), fg.tensor([1, 0])
    for check in (gradcheck, gradgradcheck):
        assert check(
            lambda w, x, i, n, name: (x * w).gather(1, i.unsqueeze(1)) ** n, (weights, x, index, 2, "a")
        )


def test_constant_functions():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    for options in MODES.values():
        assert gradcheck(lambda x: fg.ones(2, dtype=fg.float64), x, **options)
        assert gradcheck(lambda x: (x > 0, x.argmax()), x, **options)
        with pytest.raises(ValueError, match="at least one output of func to require gradient"):
            gradgradcheck(lambda x: fg.ones(2, dtype=fg.float64), x, **options)


def test_one_tensor_as_two_inputs():
    x = fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)
    assert gradcheck(lambda a, b: a * b.exp(), (x, x))


def test_the_function_may_reach_inputs_without_its_arguments():
    x = fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)
    assert gradcheck(lambda unused: x * x, x)
    assert not gradcheck(lambda unused: x * x.detach(), x, raise_exception=False)


@pytest.mark.parametrize("strided", [False, True])
def test_random_grad_outputs_are_leaves(strided: bool):
    x = fg.ones(2, 3, dtype=fg.float64, requires_grad=True)
    seen: list[tuple[bool, bool]] = []

    def function(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: None if g is None else seen.append((g.requires_grad, g.is_contiguous())))
        return y, x.sum()

    assert gradgradcheck(function, x, gen_non_contig_grad_outputs=strided)
    assert (True, not strided) in seen


def test_given_grad_outputs():
    x = fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)
    constant, leaf = fg.ones(2, dtype=fg.float64), fg.ones(2, dtype=fg.float64, requires_grad=True)
    wrong = Case(lambda lib, a: hooked(a * 2, lambda g: g.detach()), ((2,),))  # wrong by its gradient alone
    for grad_outputs in (constant, (constant,), [constant]):
        assert gradgradcheck(function_of(fg, wrong), x, grad_outputs)
    assert not gradgradcheck(function_of(fg, wrong), x, leaf, raise_exception=False)
    assert gradgradcheck(lambda x: (x.exp().sum(), x**3), x, (None, leaf))


def test_the_users_generators_are_left_alone():
    x = fg.ones(2, 3, dtype=fg.float64, requires_grad=True)
    state, numpy_state = fg.get_rng_state(), np.random.get_state()  # noqa: NPY002
    assert gradcheck(lambda x: x.exp(), x, fast_mode=True)
    assert gradgradcheck(lambda x: x.exp(), x, fast_mode=True)
    assert fg.get_rng_state().tolist() == state.tolist()
    assert np.array_equal(np.random.get_state()[1], numpy_state[1])  # noqa: NPY002


# --- wrong functions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_caught(name: str, options: dict[str, Any]):
    with pytest.raises(GradcheckError):
        checked(fg, "gradcheck", WRONG[name], **options)
    assert checked(fg, "gradcheck", WRONG[name], raise_exception=False, **options) is False


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", WRONG_SECOND)
def test_wrong_gradients_of_gradients_are_caught(name: str, options: dict[str, Any]):
    assert checked(fg, "gradcheck", WRONG_SECOND[name], **options)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0"):
        checked(fg, "gradgradcheck", WRONG_SECOND[name], **options)
    assert checked(fg, "gradgradcheck", WRONG_SECOND[name], raise_exception=False, **options) is False


def test_tolerances():
    case = Case(lambda lib, a: hooked(a * 100, lambda g: g * 1.01), ((2,),))  # 101 in place of 100, 0 for 0
    assert checked(fg, "gradcheck", case, rtol=0.011)
    assert not checked(fg, "gradcheck", case, rtol=0.009, raise_exception=False)
    assert checked(fg, "gradcheck", case, rtol=0, atol=1.1)
    assert not checked(fg, "gradcheck", case, rtol=0, atol=0.9, raise_exception=False)


def test_step():
    x = fg.tensor([1.0], dtype=fg.float64, requires_grad=True)
    assert gradcheck(lambda x: x**3, x)
    with pytest.raises(GradcheckError, match=r"numerical:tensor\(\[\[3.2500\]\]"):
        gradcheck(lambda x: x**3, x, eps=0.5)


def test_fast_mode_gives_the_same_numbers_every_time():
    messages = set()
    for _ in range(3):
        fg.randn(3)
        with pytest.raises(GradcheckError) as caught:
            checked(fg, "gradcheck", WRONG["scaled"], fast_mode=True)
        messages.add(str(caught.value))
    assert len(messages) == 1


# --- messages ----------------------------------------------------------------------------------------------


def message_of(function: Callable[..., Any], inputs: Any, check: Any = gradcheck, **options: Any) -> str:
    with pytest.raises(GradcheckError) as caught:
        check(function, inputs, **options)
    return str(caught.value)


def test_the_message_shows_the_jacobians():
    index = fg.tensor([0, 1])
    a, b = (fg.ones(2, dtype=fg.float64, requires_grad=True) for _ in range(2))
    factor = fg.tensor([1.0, 4.0])

    def function(index: Any, a: Any, b: Any) -> Any:
        return index * 2, a * b, a + hooked(b * 3, lambda g: g * factor)

    assert message_of(function, (index, a, b)) == (
        "Jacobian mismatch for output 2 with respect to input 2,\n"
        "numerical:tensor([[3.0000, 0.0000],\n        [0.0000, 3.0000]], dtype=fastgrad.float64)\n"
        "analytical:tensor([[ 3.,  0.],\n        [ 0., 12.]], dtype=fastgrad.float64)\n"
        "The maximal difference is 9, for element (1,) of the input and element (1,) of the output."
    )


def test_rows_are_elements_of_the_input():
    x = fg.ones(2, 2, dtype=fg.float64, requires_grad=True)
    message = message_of(lambda x: hooked(x.sum(0) * 1, lambda g: g * fg.tensor([1.0, 2.0])), x)
    assert "analytical:tensor([[1., 0.],\n        [0., 2.],\n        [1., 0.],\n        [0., 2.]]" in message
    assert message.endswith("for element (0, 1) of the input and element (1,) of the output.")


def test_the_message_of_fast_mode():
    message = message_of(
        lambda x: hooked(x * 2, lambda g: g * 2),
        fg.ones((), dtype=fg.float64, requires_grad=True),
        fast_mode=True,
    )
    assert message == (
        "Jacobian mismatch for output 0 with respect to input 0,\n"
        "numerical:tensor(2.0000, dtype=fastgrad.float64)\nanalytical:tensor(4., dtype=fastgrad.float64)\n"
        "These are projections to random vectors, which is what fast mode compares. The Jacobians themselves are\n"
        "Numerical:\ntensor([[2.0000]], dtype=fastgrad.float64)\n"
        "Analytical:\ntensor([[4.]], dtype=fastgrad.float64)\n"
        "The maximal difference is 2, for element () of the input and element () of the output."
    )


def test_fast_mode_says_when_slow_mode_would_have_passed():
    """Where large elements cancel, what is tolerated of each is more than what is tolerated of their sum."""
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    signs = fg.tensor([100.0, -100.0], dtype=fg.float64)
    case = (lambda x: hooked((x * signs).sum(), lambda g: g * 1.0009), x)
    assert gradcheck(*case)
    message = message_of(*case, fast_mode=True, rtol=1e-6, atol=0.0)
    assert "Pass fast_mode=False" not in message

    def canceling(x: Any) -> Any:
        y = x * signs
        return hooked(y, lambda g: g * fg.tensor([1.0009, 0.9991], dtype=fg.float64)).sum()

    assert gradcheck(canceling, x)
    assert "Pass fast_mode=False to compare the elements" in message_of(canceling, x, fast_mode=True)


def test_a_difference_that_is_nan():
    message = message_of(
        lambda x: hooked(x * 2, lambda g: g * float("nan")), fg.ones(1, dtype=fg.float64, requires_grad=True)
    )
    assert "analytical:tensor([[nan]]" in message
    assert "The maximal difference is nan" in message


def test_passes_that_differ():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    noise = itertools.cycle([0.0, 0.0, 1e-7])

    def function(x: Any) -> Any:
        return hooked(x * 2, lambda g: g * (1 + next(noise)))

    message = message_of(lambda x: (x.exp(), function(x)), x)
    assert message.startswith(
        "Backward is not reentrant, i.e., running backward with same input and grad_output"
    )
    assert "two gradients of output 1 with respect to input 0 are 2e-07 apart" in message
    assert "The tolerance for nondeterminism was 0.0" in message
    assert "not reentrant" in message_of(function, x, nondet_tol=1e-8)
    assert "not reentrant" in message_of(lambda x: function(x).sum(), x, fast_mode=True)
    assert gradcheck(function, x, nondet_tol=1e-6)


def test_backward_that_adds():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)

    def function(x: Any) -> Any:
        return hooked(x * 2, lambda g: g + 1e-10)

    message = message_of(function, x)
    assert message.startswith("backward not multiplied by grad_output")
    assert "that of input 0 is not, but tensor([2.0000e-10, 2.0000e-10]" in message
    assert gradcheck(function, x, masked=True)


def test_output_that_should_require_grad():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    for options in MODES.values():
        message = message_of(lambda x: x.detach() * 3, x, **options)
        assert message.startswith("Numerical gradient for function expected to be zero")
        assert "with respect to input 0" in message


def test_a_pass_that_cannot_do_without_a_gradient():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)

    def function(x: Any) -> Any:
        y = x * 2

        def hook(g: Any) -> None:
            if g is None:
                raise RuntimeError("a gradient, please")

        y.register_hook(hook)
        return x.exp(), y

    message = message_of(function, x)
    assert message.startswith("Expected backward function to handle undefined output grads")
    assert "without a gradient for output 0, 1 it raised RuntimeError: a gradient, please" in message
    assert message.endswith("Pass check_undefined_grad=False if that cannot happen to this function.")
    assert gradcheck(function, x, check_undefined_grad=False)


def test_errors_of_hooks_pass_through():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)

    def function(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 1)
        return y

    with pytest.raises(TypeError, match="NoneType"):
        gradcheck(function, x, raise_exception=False)


def zeros_beside_none(x: Any) -> Any:
    """Outputs of one node, which takes a zero for a one where the other gradient is missing."""
    outputs = (x * 2).unbind(0)

    def hook(grad_outputs: tuple[Any, ...]) -> Any:
        first, second = grad_outputs
        return (first + 1, None) if first is not None and not first and second is None else None

    outputs[0].grad_fn.register_prehook(hook)
    return outputs


def test_a_pass_that_takes_no_gradient_for_another_than_zero():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    message = message_of(zeros_beside_none, x)
    assert message.startswith("Expected all input grads to be undefined or zero")
    assert "without a gradient for output 1 that of input 0 is tensor([2., 0.]" in message
    assert gradcheck(zeros_beside_none, x, check_undefined_grad=False)


def test_gradients_of_the_wrong_kind(monkeypatch: pytest.MonkeyPatch):
    module = importlib.import_module("fastgrad.autograd.jacobians")
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    monkeypatch.setattr(module, "grad", lambda *_, **__: (fg.zeros(3),))
    assert message_of(lambda x: x * 0, x) == (
        "Analytical gradient has incorrect size: (3,) for input 0 of (2,)"
    )
    monkeypatch.setattr(module, "grad", lambda *_, **__: (fg.zeros(2),))
    assert gradcheck(lambda x: x * 0, x, check_undefined_grad=False)
    assert message_of(lambda x: x * 0, x, check_grad_dtypes=True) == (
        "Gradient has dtype mismatch: float32 for input 0 of float64"
    )


# --- what is refused ---------------------------------------------------------------------------------------


def test_error_is_a_runtime_error_of_the_module():
    module = importlib.import_module("fastgrad.autograd.gradcheck")
    assert issubclass(GradcheckError, RuntimeError)
    assert module.gradcheck is fg.autograd.gradcheck
    assert module.gradgradcheck is fg.autograd.gradgradcheck


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_inputs_that_are_refused(check: Callable[..., bool]):
    row = fg.ones(3, dtype=fg.float64, requires_grad=True)
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        check(lambda x: x * 2, fg.ones(2), raise_exception=False)
    with pytest.raises(ValueError, match="at least one input tensor"):
        check(lambda x: fg.ones(2), 3.0)
    with pytest.raises(RuntimeError, match=r"The 1th input has a dimension with stride 0.*contiguous"):
        check(lambda n, x: x * n, (2, row.expand(2, 3)), raise_exception=False)
    assert check(lambda x: x * 2, row.expand(1, 3))
    assert check(lambda x, y: x * y, (row, fg.ones(3, dtype=fg.float64).expand(2, 3)))


def test_float32_is_warned_about():
    x = fg.ones(2, requires_grad=True)
    with pytest.warns(
        UserWarning, match="Input #1 requires gradient and is not a double precision"
    ) as caught:
        assert gradcheck(lambda n, x: x * n, (2, x), eps=1e-2)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="it is float32") as caught:
        assert not gradcheck(lambda x: x.exp(), x, raise_exception=False)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"Input #[01]"):
        assert gradgradcheck(lambda x: x * x, x, eps=1e-2, atol=1e-2)


def test_outputs_that_are_refused():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    for returned, kind in ((None, "NoneType"), ((x, 3.0), "float"), ({}, "dict")):
        for check in (gradcheck, gradgradcheck):
            with pytest.raises(TypeError, match=f"a Tensor or a tuple of Tensors, but output . is a {kind}"):
                check(lambda x, returned=returned: returned, x)


def test_functions_whose_outputs_change():
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    calls = itertools.count()
    shrinking = {
        "shape": lambda x: x[next(calls) :],
        "dtype": lambda x: x.to(fg.float32 if next(calls) else fg.float64),
    }
    for what, function in shrinking.items():
        calls = itertools.count()
        expected = f"the same {what} when inputs are perturbed on index (0,) by 1e-06, but got: {what}s "
        with pytest.raises(AssertionError, match=re.escape(expected)):
            gradcheck(function, x)
    calls = itertools.count()
    with pytest.raises(AssertionError, match=r"the same number when .* perturbed by 1e-06.* 2 and 1"):
        gradcheck(lambda x: (x, x)[next(calls) :], x, fast_mode=True)


MORE_CHECKS = [
    (gradcheck, {"check_forward_ad": True}),
    (gradcheck, {"check_forward_ad": True, "check_backward_ad": False}),
    (gradcheck, {"check_batched_grad": True}),
    (gradcheck, {"check_forward_ad": True, "check_batched_forward_grad": True}),
    (gradgradcheck, {"check_fwd_over_rev": True}),
    (gradgradcheck, {"check_fwd_over_rev": True, "check_rev_over_rev": False, "check_undefined_grad": False}),
    (gradgradcheck, {"check_batched_grad": True}),
]


def several(x: Any, y: Any, n: int) -> Any:
    return (x @ y).sin() * n, x.sum() * y, x.detach()


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize(
    ("check", "flags"), MORE_CHECKS, ids=lambda v: " ".join(v) if isinstance(v, dict) else v.__name__
)
def test_forward_mode_and_batches(check: Callable[..., bool], flags: dict[str, bool], fast_mode: bool):
    x, y = (
        fg.tensor(v, dtype=fg.float64, requires_grad=True) for v in ([[0.1, 0.2]], [[0.3, 0.4], [0.5, 0.6]])
    )
    assert check(several, (x, y, 3), **flags, fast_mode=fast_mode)
    assert x.grad is None


class WrongTangent(fg.autograd.Function):
    """Its gradient is right, but not linear in the gradient of the output, which forward mode relies on."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 + (g - g.detach()) * 7


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrong_tangents(fast_mode: bool):
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    assert gradcheck(WrongTangent.apply, x, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="computed with forward mode mismatch for output 0 with"):
        gradcheck(WrongTangent.apply, x, fast_mode=fast_mode, check_forward_ad=True)
    assert not gradcheck(WrongTangent.apply, x, check_forward_ad=True, raise_exception=False)


def test_wrong_batches(monkeypatch: pytest.MonkeyPatch):
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    right = Jacobians.batched_passes
    monkeypatch.setattr(Jacobians, "batched_passes", lambda *a: tuple(g * 2 for g in right(*a)))
    with pytest.raises(
        GradcheckError, match="batched gradient computation, for output 0 and input 0 vmap gave"
    ):
        gradcheck(lambda x: x * 3, x, check_batched_grad=True)


CONTRADICTIONS = [
    (gradcheck, {"check_backward_ad": False}, "at least one of check_forward_ad or check_backward_ad"),
    (
        gradcheck,
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        "check_batched_grad=True requires check_backward_ad",
    ),
    (gradcheck, {"check_batched_forward_grad": True}, "check_batched_forward_grad=True requires check_forward_ad"),
    (gradgradcheck, {"check_rev_over_rev": False}, "at least one of check_fwd_over_rev or check_rev_over_rev"),
    (
        gradgradcheck,
        {"check_rev_over_rev": False, "check_fwd_over_rev": True},
        "check_undefined_grad=True requires check_rev_over_rev",
    ),
    (
        gradgradcheck,
        {
            "check_rev_over_rev": False, "check_fwd_over_rev": True, "check_undefined_grad": False,
            "check_batched_grad": True,
        },
        "check_batched_grad=True requires check_rev_over_rev",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("check", "flags", "message"), CONTRADICTIONS)
def test_flags_that_contradict(check: Callable[..., bool], flags: dict[str, bool], message: str):
    x = fg.ones(2, dtype=fg.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=message):
        check(lambda x: x * 2, x, raise_exception=False, **flags)


# --- as torch ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch


def reentrant(lib: ModuleType, a: Any) -> Any:
    noise = itertools.count()
    return hooked(a * a, lambda g: g * (1 + 1e-7 * next(noise)))


ODD = {
    "passes that differ": Case(reentrant, ((2,),)),
    "backward that adds": Case(lambda lib, a: hooked(a * a, lambda g: g + 1e-10), ((2,),)),
    "zeros beside none": Case(lambda lib, a: zeros_beside_none(a), ((2,),)),
    "hook that fails without a gradient": Case(lambda lib, a: scaled_by_one(a * a), ((2,),)),
    "constant": Case(lambda lib, a: lib.ones(2, dtype=lib.float64), ((2,),)),
    "error in the function": Case(lambda lib, a: a @ a.reshape(1, 4), ((2, 2),)),
}


def scaled_by_one(tensor: Any) -> Any:
    tensor.register_hook(lambda g: g * 1)
    return tensor


def outcome(lib: ModuleType, check: str, case: Case, **options: Any) -> Any:
    try:
        return checked(lib, check, case, **options)
    except Exception as error:
        return type(error).__name__


ALL = {
    f"{kind}: {name}": case
    for kind, cases in (("right", RIGHT), ("wrong", WRONG), ("wrong second", WRONG_SECOND), ("odd", ODD))
    for name, case in cases.items()
}
OPTIONS: dict[str, dict[str, Any]] = {
    **MODES,
    "masked": {"masked": True},
    "tolerant": {"nondet_tol": 1e-3, "check_undefined_grad": False},
    "dtypes": {"check_grad_dtypes": True, "raise_exception": False},
}


# Without outputs torch fails while it calls the function with the wrong arguments.
WITHOUT_OUTPUTS = ("wrong: not recorded", "odd: constant")


@pytest.mark.parity
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ALL)
def test_same_outcome_as_torch(torch: ModuleType, check: str, name: str):
    for label, options in OPTIONS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = (outcome(lib, check, ALL[name], **options) for lib in (fg, torch))
        if check == "gradgradcheck" and name in WITHOUT_OUTPUTS:
            assert (ours, theirs) == ("ValueError", "TypeError"), label
        else:
            assert ours == theirs, label


@pytest.mark.parity
@pytest.mark.parametrize(("check", "flags", "message"), CONTRADICTIONS)
def test_same_words_for_contradictions(
    torch: ModuleType, check: Callable[..., bool], flags: Any, message: str
):
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=message):
        getattr(torch.autograd, check.__name__)(lambda x: x * 2, x, **flags)


@pytest.mark.parity
@pytest.mark.parametrize("check", CHECKS)
def test_same_refusals(torch: ModuleType, check: str):
    found = []
    for lib in (fg, torch):
        row = lib.ones(3, dtype=lib.float64, requires_grad=True)
        refused = []
        for inputs in (row.detach(), row.expand(2, 3), row.expand(1, 3), row.float()):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    refused.append(getattr(lib.autograd, check)(lambda x: x * 2, inputs))
            except Exception as error:
                refused.append((type(error).__name__, str(error)[:40]))
        found.append(refused)
    assert found[0] == found[1]
