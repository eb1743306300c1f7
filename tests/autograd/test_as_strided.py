"""`as_strided` of tensors that begin inside of their memory: values, gradients, refusals."""

from __future__ import annotations

import pytest

import fastgrad as fg

CASES = {
    "a number": (lambda a: a[5], (), (), None),
    "the same": (lambda a: a[4:16].view(3, 4), (3, 4), (4, 1), None),
    "behind the first": (lambda a: a[4:16].view(3, 4), (2, 2), (4, 2), 6),
    "shared elements": (lambda a: a[2:10], (4, 3), (1, 0), 3),
    "gaps": (lambda a: a.view(4, 5)[1:, 1:4], (3, 2), (5, 2), None),
    "transposed": (lambda a: a.view(4, 5)[1:, 1:].t(), (3, 4), (5, 1), None),
}


def result(lib, name):
    """The view and the gradients, of first and second order, of a leaf that begins inside of its memory."""
    part, size, stride, offset = CASES[name]
    x = part(lib.arange(20.0, dtype=lib.float64)).detach().requires_grad_()
    assert x.storage_offset()
    y = lib.as_strided(x, size, stride, offset)
    weights = lib.arange(1.0, 1 + y.numel(), dtype=lib.float64).view(y.shape)
    (first,) = lib.autograd.grad((y**3 * weights).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x)
    return [t.tolist() for t in (y, first, second)] + [y.storage_offset()]


@pytest.mark.parametrize("name", CASES)
def test_gradients_go_where_the_elements_are(name):
    part, size, stride, offset = CASES[name]
    values, first, _, at = result(fg, name)
    base = fg.arange(20.0, dtype=fg.float64).requires_grad_()
    x = part(base)
    y = fg.as_strided(base, size, stride, x.storage_offset() if offset is None else offset)
    assert (y.tolist(), y.storage_offset()) == (values, at)
    weights = fg.arange(1.0, 1 + y.numel(), dtype=fg.float64).view(y.shape)
    (y**3 * weights).sum().backward()
    assert part(base.grad).tolist() == first


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch(name):
    assert result(fg, name) == result(pytest.importorskip("torch"), name)


def test_without_gradients_a_view_may_begin_before_the_tensor():
    x = fg.arange(6)[3:]
    assert fg.as_strided(x, (2,), (4,), 0).tolist() == [0, 4]
    assert fg.as_strided(x, (2,), (1,)).tolist() == [3, 4]


@pytest.mark.parametrize(("size", "offset"), [((4,), None), ((1,), 6), ((1,), 2**62), ((2**62,), 1)])
def test_beyond_the_memory(size, offset):
    with pytest.raises(RuntimeError, match="storage"):
        fg.as_strided(fg.arange(6)[3:], size, (1,), offset)


def test_what_has_no_derivative_says_so():
    x = fg.arange(6.0)[3:].detach().requires_grad_()
    with pytest.raises(NotImplementedError, match="before the tensor"):
        fg.as_strided(x, (2,), (1,), 1)
    with pytest.raises(NotImplementedError, match="ends behind it"):
        fg.as_strided((x * 2)[:2], (3,), (1,))
    y = fg.as_strided((x * 2)[:2], (0,), (7,))
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    with pytest.raises(NotImplementedError, match="repeats elements"):
        fg.as_strided(fg.ones(1, requires_grad=True).expand(3), (1,), (1,))
