"""`fastgrad.testing`, and what dtypes can hold, against PyTorch."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import fastgrad as fg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity
NAN, INF = float("nan"), float("inf")
PAIRS = [
    lambda m: (m.tensor([1.0, 2, 3]), m.tensor([1.0, 2, 4])),
    lambda m: (m.tensor([1.0, 2, 3]), m.tensor([1.0, 2])),
    lambda m: (m.tensor([1.0, 2]), m.tensor([1, 2])),
    lambda m: (m.tensor([[1.0, 2], [3, 4]]), m.tensor([[1.0, 2], [7, 4]])),
    lambda m: (m.tensor([1, 2, 3]), m.tensor([1, 2, 4])),
    lambda m: (m.tensor([True]), m.tensor([False])),
    lambda m: (m.tensor(1.0), m.tensor(2.0)),
    lambda m: (m.tensor([NAN]), m.tensor([NAN])),
    lambda m: (m.tensor([INF]), m.tensor([INF])),
    lambda m: (m.tensor([INF]), m.tensor([-INF])),
    lambda m: (m.tensor([1.0]), m.tensor([1.0 + 1e-6])),
    lambda m: (m.tensor([1.0], dtype=m.bfloat16), m.tensor([1.01], dtype=m.bfloat16)),
    lambda m: (m.empty(0), m.empty(0)),
    lambda m: (m.ones(2, requires_grad=True), m.ones(2)),
    lambda m: (1.0, 1.1),
    lambda m: (1, 2),
    lambda m: (1, 1.0),
    lambda m: (True, False),
    lambda m: (NAN, NAN),
    lambda m: (None, None),
    lambda m: (None, 1),
    lambda m: ("a", "a"),
    lambda m: (m.tensor([1.0]), 1.0),
    lambda m: (m.tensor([1.0]), [1.0]),
    lambda m: (np.ones(2), np.ones(2) * 2),
    lambda m: (np.ones(2), m.ones(2)),
    lambda m: ([1, 2], [1, 3]),
    lambda m: ([m.tensor([1.0])], [m.tensor([1.0]), m.tensor([2.0])]),
    lambda m: ({"a": m.tensor([1.0])}, {"b": m.tensor([1.0])}),
    lambda m: ({"a": m.tensor([1.0])}, {"a": m.tensor([2.0])}),
    lambda m: ([[1.0, [2]], 3], [[1.0, [5]], 3]),
    lambda m: (object(), object()),
]
OPTIONS = [
    {},
    {"equal_nan": True},
    {"rtol": 0.1, "atol": 0.5},
    {"rtol": 0, "atol": 0},
    {"check_dtype": False},
    {"rtol": 1.0},
    {"msg": "hello"},
    {"msg": lambda text: f"so: {text}"},
    {"check_stride": True},
    {"allow_subclasses": False},
]


def outcome(library, pair, options):
    try:
        library.testing.assert_close(*pair(library), **options)
    except Exception as error:
        if isinstance(error, AssertionError):
            text = str(error).replace("torch", "fastgrad")
            return AssertionError, re.sub(r"\d+\.\d+(e-\d+)?", lambda m: f"{float(m[0]):.2g}", text)
        return type(error), ""
    return None


@pytest.mark.parametrize("k", range(len(PAIRS)))
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "plain")
def test_assert_close(k, options):
    if "msg" in options and k in (27, 28):
        pytest.skip("PyTorch says there what it says without")
    assert outcome(fg, PAIRS[k], options) == outcome(torch, PAIRS[k], options)


def test_assert_close_refuses_containers_that_hold_themselves():
    a: list = [1]
    a.append(a)
    with pytest.raises(TypeError, match="holds itself"):
        fg.testing.assert_close(a, a)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
@pytest.mark.parametrize("limits", [(None, None), (0, 1), (-3, 5), (2, 4), (-1e6, 1e6)])
def test_make_tensor_stays_within_its_limits(dtype, limits):
    low, high = limits
    if dtype == "bool" and limits == (2, 4):
        low, high = 0, 2
    x = fg.testing.make_tensor((50, 4), dtype=getattr(fg, dtype), device="cpu", low=low, high=high)
    y = torch.testing.make_tensor((50, 4), dtype=getattr(torch, dtype), device="cpu", low=low, high=high)
    assert (tuple(x.shape), str(x.dtype)) == (tuple(y.shape), str(y.dtype).replace("torch", "fastgrad"))
    floor = max(y.double().min().item(), -math.inf)
    span = y.double().max().item() - floor
    assert floor - span <= x.double().min().item()
    assert x.double().max().item() <= floor + 2 * span
    if low is not None and dtype != "uint8":
        assert x.double().min().item() >= low


def test_make_tensor_options():
    make = fg.testing.make_tensor
    x = make(4, 6, dtype=fg.float32, device="cpu", noncontiguous=True)
    assert not x.is_contiguous()
    assert x.shape == (4, 6)
    assert make([2, 3], dtype=fg.float64, device="cpu", requires_grad=True).requires_grad
    assert (make(500, dtype=fg.int64, device="cpu", low=-1, high=2, exclude_zero=True) != 0).all()
    x = make(2, 3, 4, 5, dtype=fg.float32, device="cpu", memory_format=fg.channels_last)
    assert x.is_contiguous(memory_format=fg.channels_last)
    for wrong in ({"low": 2, "high": 1}, {"low": NAN}, {"requires_grad": True}):
        with pytest.raises(ValueError, match=r"low|requires_grad"):
            make(2, dtype=fg.int64, device="cpu", **wrong)
    with pytest.raises(ValueError, match="mutually exclusive"):
        make(2, dtype=fg.float32, device="cpu", noncontiguous=True, memory_format=fg.channels_last)


@pytest.mark.parametrize("name", ["uint8", "int32", "int64"])
def test_iinfo(name):
    a, b = fg.iinfo(getattr(fg, name)), torch.iinfo(getattr(torch, name))
    assert (a.bits, a.min, a.max, a.dtype) == (b.bits, b.min, b.max, b.dtype)
    assert repr(a) == repr(b).replace(f"{float(b.min):g}", str(b.min)).replace(
        f"{float(b.max):g}", str(b.max)
    )
    assert a == fg.iinfo(getattr(fg, name))


@pytest.mark.parametrize("wrong", ["float32", "bool", 3, None])
def test_iinfo_refuses(wrong):
    with pytest.raises(TypeError, match="iinfo"):
        fg.iinfo(getattr(fg, wrong) if isinstance(wrong, str) else wrong)


NAMES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("a", NAMES)
def test_can_cast(a):
    for b in NAMES:
        assert fg.can_cast(getattr(fg, a), getattr(fg, b)) == torch.can_cast(
            getattr(torch, a), getattr(torch, b)
        )
    with pytest.raises(TypeError, match="can_cast"):
        fg.can_cast(fg.float32, "int")


def test_constants_and_questions():
    assert (fg.pi, fg.e, fg.inf, fg.newaxis) == (torch.pi, torch.e, torch.inf, torch.newaxis)
    assert math.isnan(fg.nan)
    for value in ([1.0], [0], [True]):
        assert fg.is_nonzero(fg.tensor(value)) == torch.is_nonzero(torch.tensor(value))
        assert fg.is_floating_point(fg.tensor(value)) == torch.is_floating_point(torch.tensor(value))
        assert not fg.is_complex(fg.tensor(value))
    with pytest.raises(RuntimeError, match="ambiguous"):
        fg.is_nonzero(fg.ones(2))
    with pytest.raises(TypeError):
        fg.is_complex(None)


def test_fork_rng():
    fg.manual_seed(3)
    with fg.random.fork_rng():
        a = fg.rand(2)
    assert fg.equal(a, fg.rand(2))
    with fg.random.fork_rng(devices=[], enabled=False):
        b = fg.rand(2)
    assert not fg.equal(a, b)
    with pytest.raises(RuntimeError, match="no device of type"), fg.random.fork_rng(devices=["cpu"]):
        pass
