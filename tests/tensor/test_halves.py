"""float16 and bfloat16: what they hold, what they promote to, how they go in and out."""

from __future__ import annotations

import copy
import io
import itertools
import operator
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.functions.data import elements_of

HALVES = pytest.mark.parametrize("half", [fg.float16, fg.bfloat16], ids=lambda d: d.name)
DTYPES = [
    d.name for d in (fg.bool, fg.uint8, fg.int32, fg.int64, fg.float16, fg.bfloat16, fg.float32, fg.float64)
]


def every(half: Any) -> Any:
    """A tensor of all 65,536 halves."""
    out = fg.empty(1 << 16, dtype=half)
    elements_of(out)[...] = np.arange(1 << 16, dtype=np.uint16).view(elements_of(out).dtype)
    return out


def bits(tensor: Any) -> np.ndarray:
    return elements_of(tensor).view(np.uint16)


def next_half(values: np.ndarray, half: Any) -> np.ndarray:
    """The bits of the halves next to float64 values, by search: ties to even, the largest by its own width."""
    whole = every(half)
    known = whole.double().numpy()[: 1 << 15]  # from 0 up, infinity and NaN at the end
    finite = known[np.isfinite(known)]
    steps = np.append(
        finite, 2 * finite[-1] - finite[-2]
    )  # where the next number would be, if there were one
    magnitude = np.minimum(np.abs(values), steps[-1])
    above = np.searchsorted(steps, magnitude)
    below = np.maximum(above - (steps[above] != magnitude), 0)
    middle = (steps[below] + steps[above]) / 2
    upper = (magnitude > middle) | ((magnitude == middle) & (below % 2 == 1))
    found = np.where(upper, above, below).astype(np.uint16)
    return found | (np.signbit(values).astype(np.uint16) << 15)


def awkward(half: Any) -> np.ndarray:
    """All halves and all ties between neighbours, as float64, and what lies beside the ties."""
    finite = np.unique(every(half).double().numpy())
    finite = finite[np.isfinite(finite)]
    largest = finite[-1] + (finite[-1] - finite[-2]) / 2
    ties = np.append((finite[1:] + finite[:-1]) / 2, [largest, -largest])
    beside = (np.nextafter(ties, way) for way in (-np.inf, np.inf))
    more = [0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, np.inf, -np.inf]
    return np.concatenate([finite, ties, *beside, more])


def single(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


# --- conversions -----------------------------------------------------------------------------------------------


@HALVES
def test_every_half_survives_wider_dtypes(half: Any):
    x = every(half)
    nan = (x != x).numpy()
    assert nan.sum() == (2046 if half is fg.float16 else 254)
    for wide in (fg.float32, fg.float64):
        back = x.to(wide).to(half)
        assert (bits(back)[~nan] == bits(x)[~nan]).all()
        assert bool((back != back).numpy()[nan].all())
    assert (bits(x.clone()) == bits(x)).all()
    assert (bits(x.view(256, 256).t().contiguous().t().reshape(-1)) == bits(x)).all()


@HALVES
@pytest.mark.parametrize("strided", [False, True])
def test_one_rounding_to_even(half: Any, strided: bool):
    values = awkward(half)
    for exact in (values, single(values)):
        source = fg.from_numpy(exact)
        if strided:
            source = fg.stack([source, source], 1)[:, 0]
        assert (bits(source.to(half)) == next_half(exact.astype(np.float64), half)).all()


@HALVES
def test_nan_stays_nan(half: Any):
    patterns = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7FC00000, 0x7F80FFFF], np.uint32)
    assert fg.from_numpy(patterns.view(np.float32)).to(half).isnan().all()
    low = np.array([0x7FF0000000000001, 0xFFF0000000000001], np.uint64)
    assert fg.from_numpy(low.view(np.float64)).to(half).isnan().all()


def test_integers():
    whole = fg.tensor([0, 1, -5, 255, 2049, 70000, 16777217])
    assert whole.half().tolist() == [0.0, 1.0, -5.0, 255.0, 2048.0, float("inf"), float("inf")]
    assert whole.bfloat16().tolist() == [0.0, 1.0, -5.0, 255.0, 2048.0, 70144.0, 16777216.0]
    x = fg.tensor([0.0, 1.5, -2.75, 200.0])
    for half in (x.half(), x.bfloat16()):
        assert half.long().tolist() == [0, 1, -2, 200]
        assert half.byte().tolist() == x.byte().tolist()
        assert half.bool().tolist() == [False, True, True, True]


def test_without_instructions_for_float16():
    """Where a processor has none, the conversions are made of integer operations: the same bits."""
    from numba import njit

    from fastgrad.kernels import halves
    from fastgrad.native.base.intrinsics import f32s, f64s

    pointer = halves.pointer_to_halves(fg.float16.code)

    @njit
    def convert(narrow: int, wide: int, floats: int, doubles: int, n: int, m: int) -> None:
        a, b, x, y = pointer(narrow), f32s(wide), f32s(floats), f64s(doubles)
        for i in range(n):
            b[i] = a[i]
        for i in range(0, m, 2):
            a[i] = x[i]
        for i in range(1, m, 2):
            a[i] = y[i]

    values = awkward(fg.float16)
    x = every(fg.float16)
    narrow = np.zeros(max(values.size, 1 << 16), np.uint16)
    narrow[: 1 << 16] = bits(x)
    out, floats = np.empty(1 << 16, np.float32), single(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halves, "_converts_float16", lambda: False)
        convert(*(array.ctypes.data for array in (narrow, out, floats, values)), 1 << 16, values.size)
    wide = x.float().numpy()
    np.testing.assert_array_equal(out, wide)
    assert (np.signbit(out) == np.signbit(wide))[~np.isnan(wide)].all()
    exact = np.where(np.arange(values.size) % 2, values, floats.astype(np.float64))
    assert (narrow[: values.size] == next_half(exact, fg.float16)).all()


# --- in and out ------------------------------------------------------------------------------------------------


@HALVES
def test_python_data(half: Any):
    assert fg.tensor([1.0, 2.1], dtype=half).tolist() == fg.tensor([1.0, 2.1]).to(half).tolist()
    assert fg.tensor(2.1, dtype=half).item() == fg.tensor(2.1).to(half).item()
    assert fg.tensor([], dtype=half).dtype is half
    assert fg.tensor([[1, 2]], dtype=half).tolist() == [[1.0, 2.0]]
    assert fg.tensor([fg.ones(2, dtype=half), [1.5, 2.5]]).dtype is fg.float32
    assert fg.tensor([fg.ones(2, dtype=half)]).dtype is half
    # 1 + 2**-11 + 2**-40 rounds up to a float16, and by way of float32 down; likewise with 8 bits less
    digits = 11 if half is fg.float16 else 8
    assert fg.tensor([1 + 2.0**-digits + 2.0**-40], dtype=half).item() == 1 + 2.0 ** (1 - digits)
    x = fg.tensor([1.5, -0.25], dtype=half)
    assert (float(x[0]), int(x[0]), bool(x[1])) == (1.5, 1, True)
    assert fg.full((2,), 0.1, dtype=half).tolist() == [fg.tensor(0.1).to(half).item()] * 2
    assert fg.arange(0, 2, 0.5, dtype=half).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert fg.linspace(0, 1, 3, dtype=half).tolist() == [0.0, 0.5, 1.0]
    assert fg.eye(2, dtype=half).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_numpy():
    a = np.array([1, 2, 3], np.float16)
    x = fg.from_numpy(a)
    a[0] = 5
    assert x.dtype is fg.half
    assert x.tolist() == [5.0, 2.0, 3.0]
    assert x.numpy().dtype == np.float16
    assert fg.from_numpy(a[::2]).tolist() == [5.0, 3.0]
    assert fg.tensor(np.float16(1.5)).dtype is fg.float16
    b = fg.ones(2, dtype=fg.bfloat16)
    for read in (b.numpy, lambda: b.numpy(force=True), lambda: np.asarray(b)):
        with pytest.raises(TypeError, match="unsupported ScalarType BFloat16"):
            read()


@HALVES
def test_text(half: Any):
    x = fg.tensor([1.0, 2.1, -1000.0], dtype=half)
    text = repr(x.float()).replace(")", f", dtype=fastgrad.{half.name})")
    assert repr(x) == text
    assert x.type() == f"fastgrad.{half.type_name}Tensor"
    assert (half.itemsize, half.is_floating_point) == (2, True)


@HALVES
def test_saving(half: Any, tmp_path: Path):
    x = every(half)[1::3]
    for name in ("a.fg", "a.safetensors"):
        if name.endswith("safetensors"):
            pytest.importorskip("safetensors")
        fg.save({"x": x, "none": x[:0], "one": fg.ones((), dtype=half), "other": fg.ones(2)}, tmp_path / name)
        back = fg.load(tmp_path / name)
        assert back["x"].dtype is half
        assert back["none"].shape == (0,)
        assert (back["one"].shape, back["other"].tolist()) == ((), [1.0, 1.0])
        assert (bits(back["x"].contiguous()) == bits(x.contiguous())).all()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (bits(made.contiguous()) == bits(x.contiguous())).all()
    buffer = io.BytesIO()
    fg.save(x, buffer)
    buffer.seek(0)
    assert fg.load(buffer).dtype is half


@HALVES
def test_dlpack(half: Any):
    x = fg.arange(12, dtype=half).view(3, 4)
    y = fg.from_dlpack(_Exporting(x.t()[1:]))
    assert (y.dtype, y.stride(), y.tolist()) == (half, (1, 4), x.t()[1:].tolist())
    y[0, 0] = 50
    assert x[0, 1].item() == 50
    assert x.__dlpack__() is not None  # nobody takes it
    del x
    assert y[0, 0].item() == 50
    with pytest.raises(BufferError, match="require gradient"):
        fg.ones(2, dtype=half, requires_grad=True).__dlpack__()


@HALVES
def test_a_capsule_that_goes_while_an_exception_is_on_its_way(half: Any):
    x = fg.ones(3, dtype=half)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            _ = [x.__dlpack__(), 1 / 0]
    assert x.tolist() == [1.0] * 3


@HALVES
def test_dlpack_does_as_it_is_told(half: Any):
    x = fg.ones(3, dtype=half)
    y = fg.from_dlpack(x.__dlpack__(copy=True))
    y[0] = 5
    assert (x.tolist(), y.tolist(), y.dtype) == ([1.0] * 3, [5.0, 1.0, 1.0], half)
    with pytest.raises(BufferError, match="device"):
        x.__dlpack__(dl_device=(2, 0))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))


class _Exporting:
    """Another library's tensor."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@HALVES
def test_random_numbers(half: Any):
    fg.manual_seed(3)
    x = fg.rand(10_000, dtype=half)
    assert x.min().item() >= 0
    assert x.max().item() < 1
    assert abs(x.float().mean().item() - 0.5) < 0.02
    for fill in (lambda t: t.normal_(1, 2), lambda t: t.random_(0, 100), lambda t: t.exponential_()):
        fg.manual_seed(3)
        wide = fill(fg.empty(1001))
        fg.manual_seed(3)
        assert (bits(fill(fg.empty(1001, dtype=half))) == bits(wide.to(half))).all()
    assert fg.nn.init.trunc_normal_(fg.empty(100, dtype=half)).abs().max().item() <= 2
    assert fg.nn.init.orthogonal_(fg.empty(4, 4, dtype=half)).dtype is half


def test_default_dtype():
    before = fg.get_default_dtype()
    try:
        for half in (fg.float16, fg.bfloat16):
            fg.set_default_dtype(half)
            assert {
                fg.tensor([1.0]).dtype,
                fg.ones(1).dtype,
                fg.tensor(1.5).dtype,
                (fg.tensor([1]) * 0.5).dtype,
            } == {half}
            assert fg.tensor([1.5, 2.0]).tolist() == [1.5, 2.0]
            assert repr(fg.tensor([1.5])) == "tensor([1.5000])"
            assert fg.nn.Linear(2, 2).weight.dtype is half
    finally:
        fg.set_default_dtype(before)


# --- as in PyTorch ---------------------------------------------------------------------------------------------


def made(lib: Any, name: str, dims: int) -> Any:
    x = lib.ones(2, dtype=lib.float32).to(getattr(lib, name))
    return x if dims else x[0]


@pytest.mark.parity
def test_promotion_table():
    torch = pytest.importorskip("torch")
    for one, other in itertools.product(DTYPES, DTYPES):
        ours, theirs = ([getattr(lib, n) for n in (one, other)] for lib in (fg, torch))
        assert str(fg.promote_types(*ours))[9:] == str(torch.promote_types(*theirs))[6:]
        for dims in itertools.product((0, 1), (0, 1)):
            a, b = (promoted(lib, one, other, dims) for lib in (fg, torch))
            assert a == b, (one, other, dims)
    for name, dims, number in itertools.product(DTYPES, (0, 1), (True, 2, 0.5)):
        for op in (operator.mul, operator.truediv, operator.lt):
            a, b = (str(op(made(lib, name, dims), number).dtype).partition(".")[2] for lib in (fg, torch))
            assert a == b, (name, dims, number)


def promoted(lib: Any, one: str, other: str, dims: tuple[int, int]) -> list[str]:
    a, b = made(lib, one, dims[0]), made(lib, other, dims[1])
    return [str(d).partition(".")[2] for d in ((a * b).dtype, lib.result_type(a, b))]


@pytest.mark.parity
def test_finfo():
    torch = pytest.importorskip("torch")
    for name in DTYPES[4:]:
        ours, theirs = fg.finfo(getattr(fg, name)), torch.finfo(getattr(torch, name))
        for fact in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
            assert getattr(ours, fact) == getattr(theirs, fact), (name, fact)
        assert repr(ours) == repr(theirs)
    assert fg.finfo() == fg.finfo(fg.float32)
    for lib in (fg, torch):
        with pytest.raises(TypeError):
            lib.finfo(lib.int32)
        with pytest.raises(TypeError):
            lib.finfo(3)


@pytest.mark.parity
@HALVES
def test_conversions_as_in_torch(half: Any):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, half.name)
    values = np.random.default_rng(1).integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    ours, theirs = fg.from_numpy(values).to(half), torch.from_numpy(values).to(kind)
    known = ~np.isnan(values)
    assert (bits(ours) == theirs.view(torch.int16).numpy().view(np.uint16))[known].all()
    assert ours[fg.from_numpy(~known)].isnan().all()
    order = torch.from_numpy(bits(every(half)).view(np.int16)).view(kind)
    for stable in (False, True):
        assert fg.sort(every(half), descending=stable, stable=True)[1].tolist() == (
            torch.sort(order, descending=stable, stable=True)[1].tolist()
        )


@pytest.mark.parity
def test_memory_of_torch():
    torch = pytest.importorskip("torch")
    for half, kind in ((fg.float16, torch.float16), (fg.bfloat16, torch.bfloat16)):
        theirs = torch.arange(6.0).to(kind).view(2, 3).t()
        ours = fg.from_dlpack(theirs)
        ours[0, 1] = 9
        assert (ours.dtype, ours.tolist()) == (half, theirs.tolist())
        back = torch.from_dlpack(ours)
        back[1, 1] = 7
        assert ours.tolist() == back.tolist() == theirs.tolist()
        assert torch.equal(torch.from_dlpack(ours[:, :0]), theirs[:, :0])


@pytest.mark.parity
def test_safetensors_of_torch(tmp_path: Path):
    torch, files = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    theirs = {n: torch.randn(3, 2).to(getattr(torch, n)) for n in ("float16", "bfloat16")}
    files.save_file(theirs, tmp_path / "a.safetensors")
    ours = fg.load(tmp_path / "a.safetensors")
    fg.save(ours, tmp_path / "b.safetensors")
    back = files.load_file(tmp_path / "b.safetensors")
    for name, x in theirs.items():
        assert ours[name].tolist() == x.tolist()
        assert torch.equal(back[name], x)


@pytest.mark.parity
def test_text_as_in_torch():
    torch = pytest.importorskip("torch")
    for name in ("float16", "bfloat16"):
        for data in ([1.0, 2.0], [0.1, 1e4], [1e-5, 3.0], [float("inf"), 1.5], [], [[1.0, 0.3]]):
            ours, theirs = (repr(lib.tensor(data, dtype=getattr(lib, name))) for lib in (fg, torch))
            assert ours == re.sub(r"torch\.", "fastgrad.", theirs)
