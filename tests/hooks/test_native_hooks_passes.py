"""The sentences of docs/native_hooks.md, one test for each number: what happens in passes, and the ready hooks."""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import native_hook
from fastgrad.autograd.native_hooks import NativeHook, m
from fastgrad.native.build.loader import NativeHookBase, rt
from fastgrad.utils import native_hooks
from fastgrad.utils.checkpoint import checkpoint


def double(grad):
    for i in range(grad.size):
        grad[i] *= 2


def add_up(grad, state):
    for i in range(grad.size):
        state[0] += grad[i]


def soft(g, limit):
    return limit * m.tanh(g / limit)


def soft_slope(g, limit):
    t = m.tanh(g / limit)
    return 1.0 - t * t


def gradient(hook, x, *, create_graph=False):
    y = x * x
    y.register_hook(hook)
    (g,) = fg.autograd.grad((y * y).sum(), x, create_graph=create_graph)
    return g


# --- differentiating ---------------------------------------------------------------------------------------------


def test_n26_create_graph():
    state = fg.zeros(1)
    x = fg.tensor([2.0], requires_grad=True)
    for hook in (native_hook(double), native_hook(elementwise=lambda g: g * 2)):
        with pytest.raises(
            RuntimeError,
            match=r"native hook '.*' of MulBackward0 is not differentiable.*elementwise= with derivative=",
        ):
            gradient(hook, x, create_graph=True)
        assert gradient(hook, x).item() == 2 * 32
    reading = native_hook(add_up, state, access="read")
    g = gradient(reading, x, create_graph=True)
    assert state.item() == 8
    assert fg.autograd.grad(g, x)[0].item() == 48
    y = x * 1
    with pytest.raises(RuntimeError, match="'double' is not differentiable"):
        native_hook(double)(y)
    x.register_hook(native_hook(double))  # this gradient is a constant, which nobody differentiates
    with pytest.warns(UserWarning, match="create_graph=True"):
        (x * 3).sum().backward(create_graph=True)
    assert x.grad.item() == 6


def test_n27_constants():
    x = fg.tensor([2.0], requires_grad=True)
    for hook in (native_hook(double, constant=True), native_hook(elementwise=lambda g: g * 2, constant=True)):
        g = gradient(hook, x, create_graph=True)
        assert g.item() == 64
        assert fg.autograd.grad(g, x)[0].item() == 32  # of `2 * x`, times a constant
        y = x * 3
        made = hook(y)
        assert (made.item(), made.requires_grad, y.item()) == (12, False, 6)
        with fg.no_grad():
            answer = hook(y)
        assert (y.item() if answer is None else answer.item()) == 12


def test_n28_elements():
    state = fg.tensor([3.0, 1.0, 0.5, 2.0], dtype=fg.float64)
    hook = native_hook(elementwise=lambda g, a, b, c, d: m.exp(g * b) * a + c * d, state=state)
    x = fg.zeros(2, 3).t().requires_grad_()
    x.register_hook(hook)
    x.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * math.e + 1, rtol=1e-6)
    state[0] = 0
    x.grad = None
    x.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1)
    for dtype in (fg.float16, fg.bfloat16, fg.float64):
        t = fg.ones((), dtype=dtype, requires_grad=True)
        t.register_hook(hook)
        (t * 2).backward()
        assert (t.grad.dtype, t.grad.item()) == (dtype, 1)
    assert (
        native_hook(elementwise=lambda g, a, b, c, d: m.exp(g * b) * a + c * d, state=state)._op == hook._op
    )
    empty = fg.ones(0, requires_grad=True)
    empty.register_hook(hook)
    empty.sum().backward()
    assert empty.grad.shape == (0,)
    with pytest.raises(TypeError, match="has 5 elements, but at most 4 fit"):
        native_hook(elementwise=lambda g, a, b, c, d, e: g, state=fg.zeros(5))
    with pytest.raises(TypeError, match=r"must be a function of \(g, state\[0\]\)"):
        native_hook(elementwise=lambda g: g, state=fg.zeros(1))
    with pytest.raises(TypeError, match="are for functions on arrays"):
        native_hook(elementwise=lambda g: g, access="read")
    with pytest.raises(TypeError, match="cannot hold its formula, which reads `math`"):
        native_hook(elementwise=lambda g: math.exp(g))
    state.data = fg.zeros(2, dtype=fg.float64)
    with pytest.raises(RuntimeError, match="has a state that is no longer what it was"):
        hook(fg.ones(1))


def test_n29_derivatives():
    state = fg.tensor([2.0])
    hook = native_hook(elementwise=soft, derivative=soft_slope, state=state)
    x = fg.tensor([0.3, 0.7], dtype=fg.float64, requires_grad=True)

    def python(g):
        return 2.0 * (g / 2.0).tanh()

    for expected, found in (
        (gradient(python, x), gradient(hook, x)),
        (
            fg.autograd.grad(gradient(python, x, create_graph=True).sum(), x)[0],
            fg.autograd.grad(gradient(hook, x, create_graph=True).sum(), x)[0],
        ),
    ):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    assert fg.autograd.gradcheck(lambda t: hook(t), (x,))
    with pytest.raises(TypeError, match="must be a function of"):
        native_hook(elementwise=soft, derivative=lambda g: g, state=state)


@pytest.fixture(scope="module", params=["stand-in", pytest.param("gpu", marks=pytest.mark.cuda)])
def gpu(request):
    import gc

    if request.param == "gpu":
        if not fg.cuda.is_available():
            pytest.skip("there is no NVIDIA GPU, or no driver for it")
        yield "cuda"
        return
    from tests.cuda.fake_driver import FakeDriver, attached

    with attached(FakeDriver()):
        yield "cuda"
        gc.collect()


def test_n30_gpus(gpu: str):
    x = fg.tensor([1.0, 3.0], device=gpu, requires_grad=True)
    for state in (fg.tensor([2.0]), fg.tensor([2.0], device=gpu)):
        handle = x.register_hook(native_hook(elementwise=soft, state=state))
        x.grad = None
        (x * x).sum().backward()
        np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * np.tanh([1, 3]), rtol=1e-5)
        handle.remove()
    p = fg.ones(2, device=gpu, requires_grad=True)
    p.register_post_accumulate_grad_hook(native_hook(elementwise=lambda g: g * 2))
    p.sum().backward()
    assert p.grad.tolist() == [2, 2]
    with pytest.raises(TypeError, match="the state must be on the CPU, not on cuda"):
        native_hook(add_up, fg.zeros(1, device=gpu))
    for access, function in (("update", double), ("leaf", lambda param, grad: None)):
        x = fg.ones(2, device=gpu, requires_grad=True)
        hook = native_hook(function, access=access)
        (x.register_post_accumulate_grad_hook if access == "leaf" else x.register_hook)(hook)
        with pytest.raises(RuntimeError, match=r"got a tensor on cuda:0; native_hook\(elementwise"):
            x.sum().backward()


def test_the_table_of_ops_stays_as_it_is_where_a_formula_is_refused():
    from fastgrad.native.host.tables import OPS

    n = len(OPS)
    with pytest.raises(TypeError):
        native_hook(elementwise=lambda g: math.exp(g))
    assert len(OPS) == n


# --- what else happens -------------------------------------------------------------------------------------------


def refuse_negative(grad):
    for i in range(grad.size):
        if grad[i] < 0:
            raise ArithmeticError("negative", 3)


def test_n31_raising():
    hook = native_hook(refuse_negative, access="read")
    log: list[Any] = []
    x = fg.ones(2, requires_grad=True)
    y = x * -1
    y.register_hook(log.append)
    x.register_hook(hook)
    x.register_hook(log.append)
    with pytest.raises(ArithmeticError) as caught:
        y.sum().backward()
    assert caught.value.args == ("negative", 3)
    line = refuse_negative.__code__.co_firstlineno + 3
    assert caught.value.__notes__ == [
        f"raised by native hook 'refuse_negative' of torch::autograd::AccumulateGrad (line {line} of {__file__})"
    ]
    assert len(log) == 1
    assert x.grad is None
    with pytest.raises(ArithmeticError):
        hook(fg.full((2,), -1.0))
    for register, factor in (("register_prehook", -1), ("register_hook", 1)):
        z = fg.ones(2, requires_grad=True) * -1
        getattr(z.grad_fn, register)(hook)
        with pytest.raises(ArithmeticError):
            (z * factor).sum().backward()
    p = fg.ones(2, requires_grad=True)
    p.register_post_accumulate_grad_hook(hook)
    with pytest.raises(ArithmeticError):
        (p * -1).sum().backward()
    assert p.grad.tolist() == [-1, -1]


def test_n32_threads():
    def work(grad, state):
        for i in range(grad.size):
            state[0] += 1
            grad[i] += 1

    states = [fg.zeros(1, dtype=fg.float64) for _ in range(4)]
    failures: list[BaseException] = []

    def run(state):
        try:
            hook = native_hook(work, state)
            for _ in range(5):
                x = fg.zeros(200_000, requires_grad=True)
                x.register_hook(hook)
                (x * 2).sum().backward()
                assert (x.grad == 3).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [state.item() for state in states] == [1_000_000] * 4


def test_n33_hooks_in_hooks_and_checkpoints():
    hook = native_hook(double)
    x = fg.ones(2, requires_grad=True)
    y = x * 1

    def register(g):
        for t in places:
            t.register_hook(hook)

    places = [x, y]
    y.register_hook(register)
    z = y.sum()
    z.backward(retain_graph=True)
    assert x.grad.tolist() == [2, 2]
    x.grad = None
    z.backward()
    assert x.grad.tolist() == [8, 8]  # one more on `x`, the first on `y`

    def inner(g):
        with fg.enable_grad():
            a = fg.ones(2, requires_grad=True)
            a.register_hook(hook)
            (a * 3).sum().backward()
        return g + a.grad

    x = fg.ones(2, requires_grad=True)
    x.register_hook(inner)
    x.register_hook(hook)
    x.sum().backward()
    assert x.grad.tolist() == [14, 14]

    state = fg.zeros(1)

    def block(t):
        t = t * 2
        t.register_hook(native_hook(add_up, state, access="read"))
        return t * 3

    x = fg.ones(2, requires_grad=True)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    assert (x.grad.tolist(), state.item()) == ([6, 6], 6)
    places.clear()


def makes_nan(grad):
    grad[0] = math.nan


def test_n34_anomaly_mode():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fg.autograd.detect_anomaly():
            for place in ("tensor", "pre", "post"):
                x = fg.ones(2, requires_grad=True)
                y = x * 2
                register = {
                    "tensor": y.register_hook, "pre": y.grad_fn.register_prehook, "post": y.grad_fn.register_hook,
                }[place]  # fmt: skip
                register(native_hook(makes_nan))
                with pytest.raises(
                    RuntimeError, match="native hook 'makes_nan' of MulBackward0 returned nan values"
                ):
                    y.sum().backward()
            x = fg.zeros(2, requires_grad=True)
            y = x * 2
            y.register_hook(native_hook(double))
            with pytest.raises(RuntimeError, match="Function 'MulBackward0' returned nan values"):
                y.backward(fg.full((2,), math.nan))
        x = fg.ones(2, requires_grad=True)
        x.register_hook(native_hook(makes_nan))
        x.sum().backward()
        assert math.isnan(x.grad[0].item())


def test_n36_other_ways_to_make_one():
    with pytest.raises(TypeError, match="made by fastgrad"):
        NativeHook(double)
    with pytest.raises(TypeError, match="cannot be derived from"):
        type("Mine", (NativeHook,), {})
    half_made = object.__new__(NativeHook)
    assert repr(half_made) == "<native hook <unknown> (read)>"
    for use in (
        lambda: half_made(fg.ones(2)),
        lambda: fg.ones(2, requires_grad=True).register_hook(half_made).id,
    ):
        try:
            use()
        except TypeError as error:
            assert "was never made" in str(error)  # noqa: PT017
    for register in ("register_hook", "register_post_accumulate_grad_hook"):
        x = fg.ones(2, requires_grad=True)
        getattr(x, register)(half_made)
        with pytest.raises(TypeError, match="was never made"):
            x.sum().backward()
    for arguments in (
        (half_made, double, None, (0, 0, 0, 0, 0)),
        (half_made, double, None, (4, 0, 0, 0, 0, 0)),
        (half_made, double, None, (0, 0, 0, 1 << 40, 0, 0)),
        (half_made, double, None, (0, -1, 0, 0, 0, 0)),
        (half_made, double, None, (0, "x", 0, 0, 0, 0)),
        (object(), double, None, (0, 0, 0, 0, 0, 0)),
        (native_hook(double), double, None, (0, 0, 0, 0, 0, 0)),
        (half_made, double, 3, (0, 0, 0, 0, 0, 0)),
        (half_made, double, None, [0, 0, 0, 0, 0, 0]),
    ):
        with pytest.raises(TypeError):
            rt.set_up_native_hook(*arguments)
    plain = object.__new__(NativeHookBase)
    x = fg.ones(2, requires_grad=True)
    x.register_hook(plain)
    with pytest.raises(TypeError, match="was never made"):
        x.sum().backward()
    for name in ("_function", "_state", "_access", "_op", "_rank"):
        with pytest.raises(AttributeError):
            setattr(native_hook(double), name, 1)


def test_a_hook_that_holds_its_tensor_is_collected():
    state = fg.zeros(2)
    hook = native_hook(add_up, state, access="read")
    x = fg.ones(2, requires_grad=True)
    x.register_hook(hook)
    hook.__dict__["held"] = x
    state.__dict__["held"] = hook
    del x, hook, state


# --- ready ones --------------------------------------------------------------------------------------------------


def test_n37_clip_and_norms():
    x = fg.tensor([3.0, -4.0, 0.5], requires_grad=True)
    norms, clip = native_hooks.norm_statistics(), native_hooks.clip_value(1.0)
    after = native_hooks.norm_statistics()
    for hook in (norms, clip, after):
        x.register_hook(hook)
    (x * x / 2).sum().backward()
    assert x.grad.tolist() == [1, -1, 0.5]
    assert clip.state.tolist() == [1, 2]
    assert norms.state.tolist() == [1, math.sqrt(25.25), math.sqrt(25.25), 25.25, math.sqrt(25.25), 4]
    assert after.state.tolist() == [1, 1.5, 1.5, 2.25, 1.5, 1]
    (x * x / 4).sum().backward()
    assert norms.state[0].item() == 2
    assert norms.state[4].item() == math.sqrt(25.25)
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="limit that is not negative"):
            native_hooks.clip_value(wrong)


def test_n37_noise():
    def noise(hook, n=100_000):
        x = fg.zeros(n, requires_grad=True)
        x.register_hook(hook)
        (x * 0).sum().backward()
        return x.grad

    hook = native_hooks.gradient_noise(2.0, seed=7)
    first, second = noise(hook), noise(hook)
    again = native_hooks.gradient_noise(2.0, seed=7)
    assert (noise(again) == first).all()
    assert (noise(again) == second).all()
    assert (noise(native_hooks.gradient_noise(2.0, seed=8)) != first).any()
    hook.state[2] = 3.0
    assert (noise(hook, 10) == first[3:13]).all()
    both = fg.cat([first, second]).double()
    assert abs(both.mean().item()) < 0.03
    assert abs(both.std().item() - 2) < 0.03
    assert abs((first * second).mean().item()) < 0.08
    assert abs((first[1:] * first[:-1]).mean().item()) < 0.08
    assert first[:3].tolist() == pytest.approx(FIRST_NUMBERS, rel=1e-6)
    for std, seed in ((-1.0, 0), (1.0, -1), (1.0, 1 << 54)):
        with pytest.raises(ValueError, match=r"gradient_noise\(\): expected"):
            native_hooks.gradient_noise(std, seed)


FIRST_NUMBERS = [-3.1010980606, -0.2628052235, 2.1919646263]


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_n37_sgd(momentum: float, decay: float):
    start, weights = fg.randn(3, 2, dtype=fg.float64), fg.randn(4, 3, 2, dtype=fg.float64)
    p, q = (start.clone().requires_grad_() for _ in range(2))
    hook = native_hooks.sgd(p, 0.1, momentum, decay)
    optimizer = fg.optim.SGD([q], 0.1, momentum=momentum, weight_decay=decay)
    for weight in weights:
        p.grad = q.grad = None
        (p * p * weight).sum().backward()
        (q * q * weight).sum().backward()
        optimizer.step()
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
    if not momentum:
        hook.state[1] = 0.5  # there is no room for it
        p.sum().backward()


# --- native hooks and hooks in Python do the same ----------------------------------------------------------------


def scaled(grad, state):
    for i in range(grad.size):
        grad[i] *= state[0]


def shifted(grad, out, state):
    for i in range(grad.size):
        out[i] = grad[i] + state[0]


def kinds_of_hooks():
    """Hooks in Python, and the native ones that do the same."""
    two, one = fg.tensor([2.0]), fg.tensor([1.0])
    return (
        (lambda g: g * 2, native_hook(scaled, two)),
        (lambda g: g.mul_(2), native_hook(scaled, two)),
        (lambda g: g + 1, native_hook(shifted, one, access="replace")),
        (lambda g: (g * 0.5).tanh(), native_hook(elementwise=lambda g: m.tanh(g * 0.5))),
        (lambda g: None, native_hook(add_up, fg.zeros(1), access="read")),
    )


def over_all(hook):
    """A hook of nodes that runs a tensor hook over each gradient."""

    def run(grads, *_):
        made = [None if g is None else hook(g) for g in grads]
        return tuple(g if new is None else new for g, new in zip(grads, made, strict=True))

    return run


def random_program(seed: int, kinds: Any, native: bool | None) -> list[list[float]]:
    """The gradients of a program with hooks, in Python, native, or (None) one or the other at random."""
    rng, which = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    leaves = [fg.tensor(rng.standard_normal((2, 3)), dtype=fg.float64, requires_grad=True) for _ in range(3)]
    values: list[Any] = list(leaves)
    for _ in range(8):
        a, b = (values[rng.integers(len(values))] for _ in range(2))
        kind = rng.integers(5)
        made = (
            a * b,
            a + b,
            a.t().t() - b,
            (a.reshape(3, 2).t().t()).reshape(2, 3),
            a.expand(2, 2, 3).sum(0),
        )[kind]
        values.append(made)
        for _ in range(rng.integers(3)):
            place, number = rng.integers(4), rng.integers(len(kinds))
            python, compiled = kinds[number]
            use = bool(which.integers(2)) if native is None else native
            if place == 0 or made.grad_fn is None:
                made.register_hook(compiled if use else python)
            elif place == 1:
                made.grad_fn.register_prehook(compiled if use else over_all(python))
            elif place == 2:
                made.grad_fn.register_hook(compiled if use else over_all(python))
            else:
                leaves[rng.integers(3)].register_hook(compiled if use else python)
    sum(value.sum() for value in values[-3:]).backward()
    return [leaf.grad.flatten().tolist() if leaf.grad is not None else [] for leaf in leaves]


def test_programs_with_native_hooks_do_the_same():
    kinds = kinds_of_hooks()
    for seed in range(0, 300, 2):
        wanted = random_program(seed, kinds, native=False)
        assert random_program(seed, kinds, native=True) == wanted, seed
        assert random_program(seed, kinds, native=None) == wanted, seed


def test_dtypes_of_outputs():
    def flip(values):
        for i in range(values.size):
            values[i] = not values[i]

    hook = native_hook(flip)
    for dtype in (fg.bool, fg.uint8, fg.int32, fg.int64):
        t = fg.tensor([0, 1], dtype=dtype)
        hook(t)
        assert t.tolist() == [1, 0]


def test_a_hook_that_is_always_called_finds_no_output():
    class Failing(fg.nn.Module):
        def forward(self, x):
            raise ArithmeticError

    state, x = fg.zeros(1), fg.ones(2)
    module = Failing()
    module.register_forward_hook(native_hook(scaled, state), always_call=True)
    with pytest.raises(ArithmeticError):
        module(x)
    assert x.tolist() == [1, 1]


def test_a_tape_keeps_the_state_of_a_formula():
    from fastgrad.native.host.tape import record

    x, weight = fg.ones(2, requires_grad=True), fg.ones(2)
    with record() as tape:
        y = x * weight
        y.register_hook(native_hook(elementwise=lambda g, a: g * a, state=fg.tensor([3.0])))
        (found,) = fg.autograd.grad((y * weight).sum(), x)
    del y
    more = [fg.full((1,), 100.0) for _ in range(50)]
    weight.fill_(2)
    tape.replay()
    assert found.tolist() == [12, 12]
    assert len(more) == 50
