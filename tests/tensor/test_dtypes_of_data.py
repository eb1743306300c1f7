"""Which dtype data gets, and the forms of `to`: in fastgrad and in PyTorch the same."""

from __future__ import annotations

import array
import contextlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

DATA: dict[str, tuple[Any, str]] = {
    "float": ([1.0], "float32"),
    "int": ([1], "int64"),
    "bool": ([True], "bool"),
    "bool, int": ([True, 2], "int64"),
    "int, float": ([1, 2.5], "float32"),
    "nothing": ([], "float32"),
    "float64": ([np.float64(1)], "float64"),
    "float32": ([np.float32(1)], "float32"),
    "int32": ([np.int32(1)], "int32"),
    "uint8": ([np.uint8(1)], "uint8"),
    "bool_": ([np.bool_(True)], "bool"),
    "float, float64": ([2.0, np.float64(1)], "float64"),
    "int, float64": ([2, np.float64(1)], "float64"),
    "float32, float": ([np.float32(1), 2.0], "float32"),
    "float32, float64": ([np.float32(1), np.float64(1)], "float64"),
    "int32, int": ([np.int32(1), 2], "int64"),
    "int32, float": ([np.int32(1), 2.0], "float32"),
    "array": ([np.zeros(2)], "float64"),
    "array of float32": ([np.zeros(2, np.float32)], "float32"),
    "array of int32": ([np.zeros(2, np.int32)], "int32"),
    "array, list": ([np.zeros(2), [1.0, 2.0]], "float64"),
    "list, array": ([[1, 2], np.zeros(2, np.int32)], "int64"),
    "backwards": ([np.arange(3.0)[::-1]], "float64"),
    "scalar": (np.float64(1), "float64"),
    "range": (range(3), "int64"),
    "array.array": (array.array("d", [1.0, 2.0]), "float32"),
    "bytearray": (bytearray(b"ab"), "int64"),
    "tuples": (((1.0, 2.0), [3, 4]), "float32"),
}


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays is extremely slow")
@pytest.mark.parametrize("name", DATA)
def test_dtype(lib: ModuleType, name: str):
    data, dtype = DATA[name]
    t = lib.tensor(data)
    assert t.dtype is getattr(lib, dtype)
    assert t.tolist() == np.asarray(data).tolist()
    assert lib.as_tensor(data).dtype is t.dtype
    exact = lib.tensor(data, dtype=lib.float64)
    assert exact.tolist() == np.asarray(data, np.float64).tolist()


def test_dtype_of_tensors_in_lists(lib: ModuleType):
    double, single, whole = (
        lib.tensor(v, dtype=d) for v, d in ((1.5, lib.float64), (2.5, lib.float32), (3, lib.int32))
    )
    for data, dtype in (
        ([double], lib.float64), ([double, 2.0], lib.float64), ([single, double], lib.float64),
        ([2.0, double], lib.float64), ([whole], lib.int32), ([whole, 2], lib.int64), ([whole, single], lib.float32),
    ):  # fmt: skip
        t = lib.tensor(data)
        assert t.dtype is dtype
        assert t.tolist() == [float(x) for x in data]


def test_tensors_and_objects_with_an_array():
    """Which PyTorch takes apart only if they have one element, or not at all."""

    class Series:
        def __init__(self, values: Any) -> None:
            self.values = np.asarray(values)

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.asarray(self.values, dtype)

    double = fg.tensor([1.5, 2.5], dtype=fg.float64)
    assert fg.tensor([double]).dtype is fg.float64
    assert fg.tensor([double, [1.0, 2.0]]).tolist() == [[1.5, 2.5], [1.0, 2.0]]
    assert fg.tensor([double.float(), double.int()]).dtype is fg.float32
    assert fg.tensor(Series([1.5, 2.5])).dtype is fg.float64
    assert fg.tensor([Series([1, 2]), Series([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert fg.as_tensor(Series(np.float32([1, 2]))).dtype is fg.float32


def test_digits_are_kept(lib: ModuleType):
    """A float goes to float64 as it is, not by way of the default dtype."""
    assert lib.tensor([0.1, np.float32(0.5)], dtype=lib.float64).tolist() == [0.1, 0.5]
    assert lib.tensor([2**53 + 1, np.int32(1)]).tolist() == [2**53 + 1, 1]
    assert lib.tensor([2**63], dtype=lib.float64).tolist() == [2.0**63]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([[1, 2], [3]], ValueError),
        ([np.zeros(2), np.zeros(3)], ValueError),
        ([1, [2]], TypeError),
        ([np.zeros(2), 1.0], TypeError),
        ([1.0, np.zeros(2)], TypeError),
        ([None], RuntimeError),
        ({"a": 1}, RuntimeError),
        ({1.0}, RuntimeError),
        ([object()], RuntimeError),
        ([2**63], ValueError),
        ("text", TypeError),
    ],
)
def test_what_is_no_data(lib: ModuleType, data: Any, error: type[Exception]):
    with pytest.raises(error):
        lib.tensor(data)


def test_a_list_within_itself():
    data: list[Any] = []
    data.append(data)
    with pytest.raises(ValueError, match="too many dimensions"):
        fg.tensor(data)
    data.clear()


# --- Python's types as dtypes ------------------------------------------------------------------------------------


def test_types_of_python(lib: ModuleType):
    x = lib.ones(2)
    made = [
        lib.tensor(3, dtype=float), lib.zeros(2, dtype=float), lib.full((2,), 1, dtype=float),
        lib.arange(3, dtype=float), lib.eye(2, dtype=float), lib.empty_like(x, dtype=float),
        lib.rand(2, dtype=float), x.to(float), x.to(dtype=float), x.to("cpu", float), x.sum(dtype=float),
        x.new_zeros(2, dtype=float), lib.nn.Linear(2, 2, dtype=float).weight, lib.nn.Linear(2, 2).to(float).weight,
        lib.nn.Linear(2, 2).to(dtype=float).weight, lib.as_tensor([1], dtype=float),
    ]  # fmt: skip
    assert {t.dtype for t in made} == {lib.float64}
    assert {t.dtype for t in (x.to(int), lib.zeros(2, dtype=int))} == {lib.int64}
    assert {t.dtype for t in (x.to(bool), lib.zeros(2, dtype=bool))} == {lib.bool}
    assert lib.promote_types(float, lib.float32) is lib.float64
    for wrong in (np.float64, "float64", str, 5):
        with pytest.raises(TypeError):
            lib.zeros(2, dtype=wrong)
    with pytest.raises(TypeError):
        lib.set_default_dtype(float)


def test_type(lib: ModuleType):
    x = lib.ones(2)
    assert x.type() == f"{lib.__name__}.FloatTensor"
    assert x.type(f"{lib.__name__}.DoubleTensor").dtype is lib.float64
    assert x.type(lib.int64).dtype is lib.int64
    for wrong in (float, "FloatTensor"):
        with pytest.raises(ValueError, match="invalid type"):
            x.type(wrong)


def test_result_type(lib: ModuleType):
    whole, half = lib.tensor([1], dtype=lib.int32), lib.ones(2)
    for a, b, dtype in (
        (whole, 1.0, lib.float32), (whole, 1, lib.int32), (half, lib.tensor(1.0, dtype=lib.float64), lib.float32),
        (whole, lib.tensor(1.0, dtype=lib.float64), lib.float64), (1, 1.0, lib.float32), (True, 2, lib.int64),
        (whole, lib.tensor(1), lib.int32), (whole, lib.tensor([1]), lib.int64), (whole, True, lib.int32),
        (lib.tensor([True]), 1, lib.int64), (lib.tensor(1, dtype=lib.int32), 1, lib.int32), (2.5, half, lib.float32),
    ):  # fmt: skip
        assert lib.result_type(a, b) is dtype
    with pytest.raises(TypeError):
        lib.result_type([1], 2)


# --- to ----------------------------------------------------------------------------------------------------------


def test_forms_of_to(lib: ModuleType):
    x, like = lib.ones(2), lib.zeros(1, dtype=lib.float64)
    cpu = lib.device("cpu")
    for args, kwargs in (
        ((lib.float64,), {}), ((lib.float64, True), {}), (("cpu", lib.float64), {}), ((cpu, lib.float64, False), {}),
        ((None, lib.float64), {}), ((like,), {}), ((like, True), {}), ((), {"dtype": lib.float64}),
        (("cpu",), {"dtype": lib.float64}), ((lib.float64,), {"non_blocking": True}), ((), {"tensor": like}),
        ((lib.float64,), {}),
    ):  # fmt: skip
        assert x.to(*args, **kwargs).dtype is lib.float64
        assert lib.nn.Linear(1, 1).to(*args, **kwargs).weight.dtype is lib.float64
    assert x.to() is x
    assert x.to(None) is x
    assert x.to("cpu", None, False, True) is not x
    assert x.to(lib.float32, False, True) is not x
    assert x.to(x, copy=True) is not x


def test_what_is_no_form_of_to(lib: ModuleType):
    x = lib.ones(2)
    for args, kwargs in (
        (("cpu", True), {}), (("cpu", "cpu"), {}), ((lib.float32, lib.float32), {}), ((lib.float32, "cpu"), {}),
        ((x, "cpu"), {}), ((x, lib.float32), {}), ((lib.float32,), {"dtype": lib.float32}), ((True, "cpu"), {}),
        ((lib.float32,), {"foo": 1}), ((lib.float32, 1), {}), (("cpu",), {"copy": 1}), ((), {"dtype": 5}),
        ((), {"device": 5.5}), ((lib.float32, True, True, True), {}), ((lib.float32, None), {}), ((x, x), {}),
    ):  # fmt: skip
        for to in (x.to, lib.nn.Linear(1, 1).to):
            with pytest.raises(TypeError, match="to\\(\\) received an invalid combination of arguments"):
                to(*args, **kwargs)
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        lib.nn.Linear(1, 1).to(copy=True)
    with pytest.raises(TypeError, match="floating point or complex dtypes"):
        lib.nn.Linear(1, 1).to(int)


# --- what is no tensor -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ones_like", "zeros_like", "empty_like", "rand_like", "randn_like", "clone", "numel"]
)
def test_a_list_is_no_tensor(lib: ModuleType, name: str):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input'.* must be Tensor, not list"):
        getattr(lib, name)([lib.ones(2)])
    with pytest.raises(
        TypeError, match=r"full_like\(\).*must be Tensor, not list|full_like\(\) received an invalid"
    ):
        lib.full_like([lib.ones(2)], 1)


PUBLIC = [
    (module, name)
    for module in (fg, F, fg.linalg)
    for name, value in sorted(vars(module).items())
    if callable(value) and not name.startswith("_") and not isinstance(value, type)
]
NO_TENSORS = ([fg.ones(2)], "abc", 5, object(), {}, np.ones(2))


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[f"{m.__name__}.{n}" for m, n in PUBLIC])
def test_what_is_no_tensor(module: ModuleType, name: str):
    """No public function answers it with an error about its own inside."""
    others = {"save", "load", "set_printoptions", "manual_seed", "seed", "set_rng_state", "warmup"}
    if name in others | {"set_default_device", "set_float32_matmul_precision", "from_file"}:
        pytest.skip("takes no tensors, and changes something else, or makes a file")
    function, t = getattr(module, name), fg.ones(2)
    for value in NO_TENSORS:
        for more in ((), (t,), (1,), (t, t), (1, 1)):
            with contextlib.suppress(TypeError, ValueError, RuntimeError, IndexError, NotImplementedError):
                function(value, *more)


@pytest.mark.parity
@pytest.mark.parametrize(
    "name", ["float32", "float64", "bfloat16", "complex64", "complex128", "int32", "bool"]
)
@pytest.mark.parametrize("form", ["to_real", "to_complex"])
def test_dtypes_of_parts(name: str, form: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        try:
            found.append(repr(getattr(getattr(lib, name), form)()).rpartition(".")[2])
        except RuntimeError:
            found.append("none")
    assert found[0] == found[1]


def test_there_are_no_pairs_of_halves() -> None:
    with pytest.raises(NotImplementedError, match=r"there is no complex dtype for fastgrad\.float16"):
        fg.float16.to_complex()
