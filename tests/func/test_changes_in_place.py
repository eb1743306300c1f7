"""Transforms of functions that change their arguments in place."""

from __future__ import annotations

import pytest

import fastgrad as fg
from fastgrad import func
from fastgrad.autograd import forward_ad


def doubled(x):
    x.mul_(2.0)
    return x * x


def sines(x):
    return x.sin_()


def filled(x):
    x[0] = 5.0
    return x * 2


def by_a_view(x):
    x[1:].mul_(3.0)
    return x.sin()


FUNCTIONS = [doubled, sines, filled, by_a_view]


def _pair(lib):
    return lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64), lib.tensor([1.0, 0.5, 2.0], dtype=lib.float64)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_of_a_copy(function):
    x, t = _pair(fg)
    wanted = func.jvp(lambda v: function(v.clone()), (x,), (t,))
    jacobian = func.jacfwd(lambda v: function(v.clone()))(x)
    changed = x.clone()
    function(changed)
    for call, expected in (
        (lambda v: func.jvp(function, (v,), (t,)), wanted),
        (lambda v: (func.jacfwd(function)(v),), (jacobian,)),
        (lambda v: (func.vmap(lambda e: func.jvp(function, (e,), (t,))[1])(v[None]),), (wanted[1][None],)),
    ):
        given = x.clone()
        for ours, theirs in zip(call(given), expected, strict=True):
            assert fg.allclose(ours, theirs)
            assert not ours.requires_grad
        assert fg.equal(given, changed)
        assert fg.equal(t, _pair(fg)[1])


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_in_pytorch(function):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        x, t = _pair(lib)
        value, tangent = lib.func.jvp(function, (x,), (t,))
        jacobian = lib.func.jacfwd(function)(_pair(lib)[0])
        found.append([value.tolist(), tangent.tolist(), x.tolist(), jacobian.flatten().tolist()])
    for ours, theirs in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_duals():
    with forward_ad.dual_level():
        x, t = _pair(fg)
        dual = forward_ad.make_dual(x, t)
        dual.mul_(2.0)
        dual[0] = 7.0
        primal, tangent = forward_ad.unpack_dual(dual)
        assert primal.tolist() == x.tolist() == [7.0, 4.0, 6.0]
        assert tangent.tolist() == [0.0, 1.0, 4.0]
        with fg.no_grad():
            other = forward_ad.make_dual(*_pair(fg))
        assert forward_ad.unpack_dual(other.square()).tangent.tolist() == [2.0, 2.0, 12.0]


def test_what_is_overwritten_and_needed_is_refused():
    def function(x):
        y = x * x
        x.add_(1.0)
        return y

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        func.jvp(function, *((part,) for part in _pair(fg)))


def _with(transform):
    return lambda y: transform(lambda v: doubled(v).sum())(y)


@pytest.mark.parametrize(
    "call",
    [
        _with(func.grad), _with(func.jacrev), _with(func.jacfwd), lambda y: func.vjp(doubled, y),
        lambda y: func.jvp(doubled, (y,), (fg.ones(2),)), lambda y: func.linearize(doubled, y),
    ],
)  # fmt: skip
def test_arguments_with_a_history_are_refused(call):
    y = fg.tensor([1.0, 2.0], requires_grad=True) * 1
    with pytest.raises(RuntimeError, match=r"changed an argument in place that has a history"):
        call(y)
    with pytest.raises(RuntimeError, match=r"changed an argument in place that has a history"):
        func.jvp(lambda v: call(v * 1), (fg.ones(2),), (fg.ones(2),))


@pytest.mark.parametrize("transform", [func.grad, func.jacrev])
def test_gradients_refuse_leaves(transform):
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        transform(lambda v: doubled(v).sum())(fg.ones(2))
