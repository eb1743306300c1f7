"""The argument ``out``: results that go to tensors which are there already."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.functions.outs import WITH_OUT
from fastgrad.functions.public import PACKAGE

DEPRECATED = pytest.warns(UserWarning, match="was resized since it had shape")

CALLS = (
    ("exp", lambda lib, x: (x,)), ("add", lambda lib, x: (x, 2)), ("sum", lambda lib, x: (x, 0)),
    ("matmul", lambda lib, x: (x, x)), ("cat", lambda lib, x: ([x, x],)), ("softmax", lambda lib, x: (x, 0)),
    ("cumsum", lambda lib, x: (x, 1)), ("where", lambda lib, x: (x > 0, x, x)), ("arange", lambda lib, x: (5,)),
    ("linspace", lambda lib, x: (0, 1, 4)), ("clamp", lambda lib, x: (x, 0)), ("argmax", lambda lib, x: (x,)),
)  # fmt: skip


def outputs_of(found: Any) -> list[Any]:
    return [found] if isinstance(found, fg.Tensor) else list(found)


@pytest.mark.parametrize(("name", "operands"), CALLS, ids=[name for name, _ in CALLS])
def test_results_go_where_they_should(name, operands):
    x = fg.tensor([[0.5, -1.0], [2.0, 0.25]])
    function = getattr(fg, name)
    wanted = function(*operands(fg, x))
    out = fg.empty(0, dtype=wanted.dtype)
    for _ in range(3):  # also where a call without `out` has a plan by now
        assert function(*operands(fg, x), out=out) is out
        assert fg.equal(out, wanted)
        assert fg.equal(function(*operands(fg, x)), wanted)
        out = fg.zeros_like(wanted)
    assert function(*operands(fg, x), out=None) is not out


def test_several_results():
    x = fg.tensor([[3.0, 1.0], [0.0, 2.0]])
    for name, arguments in (
        ("sort", (1,)),
        ("topk", (1,)),
        ("max", (1,)),
        ("cummin", (0,)),
        ("kthvalue", (1,)),
    ):
        wanted = getattr(fg, name)(x, *arguments)
        outs = fg.empty(0), fg.empty(0, dtype=fg.int64)
        found = getattr(fg, name)(x, *arguments, out=outs)
        assert type(found) is fg.return_types.OUT.get(type(wanted), type(wanted))
        assert all(a is b and fg.equal(a, c) for a, b, c in zip(found, outs, wanted, strict=True))
    with pytest.raises(TypeError, match=r"sort\(\): argument 'out' must be 2 tensor"):
        fg.sort(x, out=fg.empty(0))
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        fg.sort(x, out=(fg.empty(0), 3))


def test_sizes_dtypes_and_memory():
    out = fg.zeros(3)
    with DEPRECATED as caught:
        fg.exp(fg.zeros(2), out=out)
    assert caught[0].filename == __file__
    assert out.tolist() == [1, 1]
    out = fg.zeros(2, dtype=fg.float64)
    assert fg.exp(fg.zeros(2), out=out).dtype is fg.float64
    out = fg.zeros(2, dtype=fg.int64)
    before = out._version
    with pytest.raises(
        RuntimeError, match=r"exp\(\): result type Float can't be cast to the desired output type Long"
    ):
        fg.exp(fg.zeros(2), out=out)
    assert (out._version, out.tolist()) == (before, [0, 0])
    x = fg.arange(4.0)
    fg.mul(x[1:], 2, out=x[:-1])  # what is read is not what is written meanwhile
    assert x.tolist() == [2, 4, 6, 3]
    with pytest.raises(RuntimeError, match="single memory location"):
        fg.exp(fg.ones(3), out=fg.zeros(1).expand(3))
    across = fg.empty(3, 2).t()
    assert fg.exp(fg.zeros(2, 3), out=across).stride() == (1, 2)
    assert fg.arange(3, out=fg.empty(3)).dtype is fg.float32
    with pytest.raises(RuntimeError, match="dtype Long does not match dtype of out parameter"):
        fg.zeros(3, dtype=fg.int64, out=fg.empty(3))


def test_no_gradients_go_through():
    x, out = fg.ones(2, requires_grad=True), fg.zeros(2)
    for call in (
        lambda: fg.exp(x, out=out), lambda: fg.exp(out, out=x), lambda: fg.cat([out, x], out=fg.empty(0)),
        lambda: fg.add(out, other=x, out=fg.empty(0)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            call()
    assert out.tolist() == [0, 0]
    with fg.no_grad():
        assert fg.exp(x, out=out) is out
    assert not out.requires_grad


@pytest.mark.parametrize("out", [3, "a", [1.0], object()])
def test_what_is_no_tensor(out):
    with pytest.raises(TypeError, match="argument 'out' must be Tensor"):
        fg.sum(fg.ones(2), 0, out=out)


def test_functions_are_still_what_their_modules_hold():
    for name in sorted(WITH_OUT):
        assert pickle.loads(pickle.dumps(PACKAGE[name])) is PACKAGE[name], name


@pytest.mark.parity
def test_like_torch():
    torch = pytest.importorskip("torch")
    x = [[0.5, -1.0], [2.0, 0.25]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, operands in CALLS:
            for kind in ("float32", "float64", "int64"):
                results = []
                for lib in (torch, fg):
                    out = lib.zeros(7, dtype=getattr(lib, kind))
                    try:
                        found = getattr(lib, name)(*operands(lib, lib.tensor(x)), out=out)
                        results.append((found is out, found.tolist()))
                    except (RuntimeError, TypeError):
                        results.append((False, []))
                ours, theirs = results[1], results[0]
                strict = not theirs[0] and ours[0]  # some functions of PyTorch want the very dtype
                assert strict or ours[0] == theirs[0], (name, kind)
                if ours[0] and theirs[0]:
                    assert torch.allclose(torch.tensor(ours[1]), torch.tensor(theirs[1])), (name, kind)


SQUARE = [[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 1.0]]
DECOMPOSING = """
    cholesky cholesky_ex cond det eig eigh eigvals eigvalsh inv inv_ex ldl_factor ldl_factor_ex lu lu_factor
    lu_factor_ex matrix_norm matrix_rank norm pinv qr slogdet svd svdvals vector_norm
"""
WAYS = {
    "special": {
        **{name: () for name in fg.special.__all__ if name != "polygamma"},  # whose first argument is a number
        **{name: (2,) for name in fg.special.__all__ if "polynomial" in name},
        "gammainc": (SQUARE,), "gammaincc": (SQUARE,), "logsumexp": (0,), "multigammaln": (1,),
        "log_softmax": (0,), "softmax": (0,), "xlog1py": (SQUARE,), "xlogy": (SQUARE,), "zeta": (SQUARE,),
    },
    "fft": {name: () for name in fg.fft.__all__ if "freq" not in name and "shift" not in name},
    "linalg": {
        **dict.fromkeys(DECOMPOSING.split(), ()),
        "cross": (SQUARE,), "matmul": (SQUARE,), "matrix_power": (2,), "solve": (SQUARE,), "solve_ex": (SQUARE,),
        "tensorinv": (1,), "tensorsolve": (SQUARE[0],), "vecdot": (SQUARE,), "householder_product": ([0.1, 0.2],),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("space", "name"), [(space, name) for space, names in WAYS.items() for name in names]
)
def test_functions_of_namespaces(space, name):
    function = getattr(getattr(fg, space), name)
    more = [fg.tensor(value) if isinstance(value, list) else value for value in WAYS[space][name]]
    x = fg.tensor(SQUARE)
    wanted = function(x, *more)
    outs = tuple(fg.empty(0, dtype=t.dtype) for t in outputs_of(wanted))
    for _ in range(3):
        found = function(x, *more, out=outs[0] if isinstance(wanted, fg.Tensor) else outs)
        assert type(found) is fg.return_types.OUT.get(type(wanted), type(wanted))
        for t, out, right in zip(outputs_of(found), outs, outputs_of(wanted), strict=True):
            assert t is out
            assert fg.allclose(out.abs(), right.abs(), equal_nan=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        function(x.requires_grad_(), *more, out=outs[0] if isinstance(wanted, fg.Tensor) else outs)
    assert pickle.loads(pickle.dumps(function)) is function
