"""int8, int16, uint16, uint32 and uint64: data, numbers, promotion, casts, memory that others share."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

SEVERAL = ("int8", "int16", "uint16", "uint32", "uint64")
UNSIGNED = SEVERAL[2:]


def info(name: str) -> Any:
    return np.iinfo(name)


@pytest.mark.parametrize("name", SEVERAL)
def test_data_and_numbers(name):
    kind, least, most = getattr(fg, name), int(info(name).min), int(info(name).max)
    x = fg.tensor([least, 1, most], dtype=kind)
    assert (x.dtype, x.tolist(), x[2].item()) == (kind, [least, 1, most], most)
    assert int(x[2]) == most
    assert float(x[1]) == 1.0
    assert bool(x[1])
    assert fg.tensor(most, dtype=kind).item() == most
    assert fg.full((2,), most, dtype=kind).tolist() == [most, most]
    assert fg.zeros(1, dtype=kind).fill_(most).item() == most
    assert repr(fg.tensor([1], dtype=kind)) == f"tensor([1], dtype=fastgrad.{name})"
    assert (fg.iinfo(kind).min, fg.iinfo(kind).max, fg.iinfo(kind).bits) == (least, most, 8 * kind.itemsize)
    assert kind.is_signed == (least < 0) == x.is_signed()
    assert x.element_size() == kind.itemsize
    with pytest.raises(RuntimeError, match="can require gradients"):
        x.requires_grad_()


@pytest.mark.parametrize("name", [*SEVERAL, "uint8", "int32", "int64"])
def test_what_a_dtype_does_not_hold_is_refused(name):
    kind, most = getattr(fg, name), int(info(name).max)
    beyond = (ValueError, OverflowError) if name.endswith("64") else RuntimeError
    for bad in (most + 1, -most - 2 if name[0] == "i" else -most - 1):
        for call in (lambda b=bad: fg.tensor(b, dtype=kind), lambda b=bad: fg.tensor([b], dtype=kind)):
            with pytest.raises(beyond):
                call()
        with pytest.raises((RuntimeError, OverflowError), match="without overflow"):
            fg.full((2,), bad, dtype=kind)
        with pytest.raises((RuntimeError, OverflowError), match="without overflow"):
            fg.zeros(2, dtype=kind).fill_(bad)
    for bad in (float("nan"), float("inf"), 1e30):
        with pytest.raises(RuntimeError, match="without overflow"):
            fg.tensor(bad, dtype=kind)
        with pytest.raises(RuntimeError, match="without overflow"):
            fg.tensor([bad], dtype=kind)
    assert fg.tensor([1.7], dtype=kind).item() == 1


@pytest.mark.parametrize("name", SEVERAL)
def test_numpy_and_bytes(name, tmp_path):
    array = np.array([info(name).min, 3, info(name).max], name)
    for x in (fg.tensor(array), fg.from_numpy(array.copy()), fg.from_dlpack(array.copy())):
        assert x.dtype is getattr(fg, name)
        np.testing.assert_array_equal(x.numpy(), array)
        np.testing.assert_array_equal(np.from_dlpack(x), array)
    assert fg.tensor(array[1]).dtype is fg.tensor([array[1]]).dtype is getattr(fg, name)
    x = fg.tensor(array)
    fg.save({"x": x}, tmp_path / "x.pt")
    for other in (fg.load(tmp_path / "x.pt")["x"], copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.dtype is x.dtype
        assert fg.equal(other, x)
    assert x.view(fg.uint8).numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("name", SEVERAL)
def test_safetensors(name, tmp_path):
    pytest.importorskip("safetensors")
    x = fg.tensor(np.array([1, 2, info(name).max], name))
    fg.save({"x": x}, tmp_path / "x.safetensors")
    other = fg.load(tmp_path / "x.safetensors")["x"]
    assert other.dtype is x.dtype
    assert fg.equal(other, x)


def test_casts():
    values = np.array([-3.7, 0, 5.2, 100], np.float64)
    for source in (*SEVERAL, "bool", "uint8", "int32", "int64", "float16", "float32", "float64"):
        with np.errstate(invalid="ignore"):
            array = (np.abs(values) if source[0] in "ub" else values).astype(source)
        x = fg.tensor(array)
        for target in ("int8", "uint64"):
            wide = array.astype(np.int64) if source.startswith("float") else array
            np.testing.assert_array_equal(x.to(getattr(fg, target)).numpy(), wide.astype(target))
            back = fg.tensor(wide.astype(target)).to(getattr(fg, source))
            with np.errstate(over="ignore"):
                wanted = wide.astype(target).astype(source)
            np.testing.assert_array_equal(back.numpy(), wanted)
    large = fg.tensor([2**64 - 1, 2**63], dtype=fg.uint64)
    assert large.double().tolist() == [2.0**64, 2.0**63]
    assert large.to(fg.uint8).tolist() == [255, 0]
    assert fg.tensor([1e19, -1.0], dtype=fg.float64).to(fg.uint64).tolist() == [10**19, 2**64 - 1]
    assert fg.tensor([300, -1]).char().tolist() == [44, -1]
    assert fg.tensor([70000]).short().tolist() == [4464]
    assert fg.tensor([1], dtype=fg.int8).type() == "fastgrad.CharTensor"


def test_promotion():
    for a, b, wanted in (
        ("int8", "uint8", "int16"), ("int8", "int16", "int16"), ("int16", "int32", "int32"), ("int8", "bool", "int8"),
        ("uint16", "uint8", "uint16"), ("uint16", "int8", "int32"), ("uint16", "int32", "int32"),
        ("uint32", "int16", "int64"), ("uint32", "uint16", "uint32"), ("uint64", "float16", "float16"),
        ("uint32", "bool", "uint32"), ("uint64", "uint32", "uint64"),
    ):  # fmt: skip
        for x, y in ((a, b), (b, a)):
            assert fg.promote_types(getattr(fg, x), getattr(fg, y)) is getattr(fg, wanted)
            made = fg.ones(2, dtype=getattr(fg, x)) * fg.ones(2, dtype=getattr(fg, y))
            assert made.dtype is getattr(fg, wanted)
    for name in SEVERAL:
        x = fg.ones(2, dtype=getattr(fg, name))
        assert (x + 1).dtype is (x + fg.tensor(1)).dtype is x.dtype
        assert (x + 1.5).dtype is (x / 2).dtype is fg.float32
    with pytest.raises(RuntimeError, match="Promotion for uint64"):
        fg.ones(2, dtype=fg.uint64) + fg.ones(2, dtype=fg.int64)
    with pytest.raises(RuntimeError, match="Promotion for uint64"):
        fg.promote_types(fg.uint64, fg.int8)


def test_arithmetic_wraps_around():
    x = fg.tensor([100, -128, 7], dtype=fg.int8)
    assert (x * 2).tolist() == [-56, 0, 14]
    assert x.abs().tolist() == [100, -128, 7]
    assert (x // -1).tolist() == [-100, -128, -7]
    assert (x % 5).tolist() == [0, 2, 2]
    assert (x << 9).tolist() == [0, 0, 0]
    assert (x >> 9).tolist() == [0, -1, 0]
    assert (x >> 2).tolist() == [25, -32, 1]
    x <<= 1
    assert x.tolist() == [-56, 0, 14]
    y = fg.tensor([2**64 - 1, 5], dtype=fg.uint64)
    assert (y + 1).tolist() == [0, 6]
    assert (y // 2).tolist() == [2**63 - 1, 2]
    assert (y % 7).tolist() == [(2**64 - 1) % 7, 5]
    assert (y > 3).tolist() == [True, True]
    assert y.sort().values.tolist() == [5, 2**64 - 1]
    assert y.max().item() == 2**64 - 1
    z = fg.tensor([2**32 - 1, 1], dtype=fg.uint32)
    assert z.sort().indices.tolist() == [1, 0]
    assert (-z).tolist() == [1, 2**32 - 1]
    assert z.sum().tolist() == 2**32
    assert z.sum().dtype is z.prod().dtype is z.cumsum(0).dtype is fg.int64
    assert fg.tensor([2**62 + 1, 1], dtype=fg.uint64).cumsum(0).tolist() == [2**62 + 1, 2**62 + 2]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        z // 0


def test_indices_are_of_other_dtypes():
    for name in SEVERAL:
        with pytest.raises(IndexError, match="must be long, int, byte or bool"):
            fg.arange(3)[fg.ones(1, dtype=getattr(fg, name))]


def test_random_integers():
    for name in SEVERAL:
        made = fg.randint(0, 100, (500,), dtype=getattr(fg, name))
        assert made.dtype is getattr(fg, name)
        assert 0 <= made.min().item() <= made.max().item() < 100
    with pytest.raises(RuntimeError, match="int8"):
        fg.randint(0, 300, (3,), dtype=fg.int8)


def test_bytes_as_another_dtype():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    bits = x.view(fg.int32)
    assert bits.tolist() == [0x3F800000, 0x40000000]
    assert not bits.requires_grad
    assert bits.data_ptr() == x.data_ptr()
    y = x.detach()
    y.view(fg.int32)[0] = 0
    assert x.tolist() == [0, 2]
    assert x._version == 1
    assert fg.ones(2, 4, dtype=fg.uint8).view(fg.int32).shape == (2, 1)
    assert fg.ones(2, 4, dtype=fg.int16).view(fg.uint8).shape == (2, 8)
    for bad, message in (
        (lambda: fg.tensor(1.0).view(fg.int8), "dim"), (lambda: fg.ones(3, dtype=fg.uint8).view(fg.int16), "divisible"),
        (lambda: fg.ones(4, 2).t().view(fg.int8), "stride"),
        (lambda: fg.ones(5)[1:].view(fg.float64), "storage_offset"),
        (lambda: fg.ones(3, 3, dtype=fg.int8)[:, :2].view(fg.int16), "stride"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            bad()


def test_strides_of_new_tensors():
    assert fg.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert fg.empty_strided((0, 3), (1, 2)).shape == (0, 3)
    assert fg.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    assert fg.ones(1, dtype=fg.int8).new_empty_strided((2,), (2,)).dtype is fg.int8
    with pytest.raises(RuntimeError):
        fg.empty_strided((2**40, 2**40), (2**30, 1))
    with pytest.raises(RuntimeError, match="physical_layout"):
        fg.empty_permuted((2, 3), (0, 0))
    x = fg.ones(4, requires_grad=True)[1:]
    with pytest.raises(NotImplementedError, match="view of its base"):
        x.as_strided((2,), (1,), 0)  # begins before it
    assert x.detach().as_strided((2,), (1,)).tolist() == [1, 1]


@pytest.mark.parity
def test_int8_like_torch():
    torch = pytest.importorskip("torch")
    a, b = [100, -128, 7, 0, 127], [3, -1, -4, 5, 127]
    calls = (
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x / y,
        lambda x, y: x - 200, lambda x, y: x == 228, lambda x, y: x < y, lambda x, y: x & y, lambda x, y: x << 3,
        lambda x, y: x.sum(), lambda x, y: x.prod(), lambda x, y: x @ y, lambda x, y: x.max(), lambda x, y: x.sign(),
        lambda x, y: x.clamp(-3, 90), lambda x, y: x.median(), lambda x, y: x.unique(), lambda x, y: x ** 2,
    )  # fmt: skip
    for k, call in enumerate(calls):
        theirs, ours = (call(*(lib.tensor(v, dtype=lib.int8) for v in (a, b))) for lib in (torch, fg))
        assert str(theirs.dtype)[6:] == ours.dtype.name, k
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, err_msg=str(k))
