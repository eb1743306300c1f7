"""Functions of lists of tensors, beside PyTorch's: values, gradients, in-place forms, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from errors_beside import kinds_raised

import fastgrad as fg
from fastgrad.functions.foreach import FOREACH

SIZES = ((2, 3), (), (0,), (4,))
ARITHMETIC = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max")


def tensors(lib: Any, start: float = 0.25, dtype: str = "float32", sizes: Any = SIZES) -> list[Any]:
    """Tensors of the sizes with numbers between 0 and 1."""
    made = []
    for k, size in enumerate(sizes):
        values = (np.arange(int(np.prod(size)), dtype=np.float64) * 0.37 + start + 0.1 * k) % 0.9 + 0.05
        made.append(lib.tensor(values.tolist(), dtype=getattr(lib, dtype)).reshape(size))
    return made


def strided(lib: Any) -> list[Any]:
    return [x.T if x.dim() == 2 else x for x in tensors(lib, sizes=((3, 2), (4, 1), (2,)))]


def wholes(lib: Any, start: int = 1) -> list[Any]:
    return [lib.arange(start, start + n, dtype=lib.int64) for n in (3, 1)]


CASES: dict[str, Callable[[Any], Any]] = {
    "add_alpha": lambda lib: lib._foreach_add(tensors(lib), tensors(lib, 0.4), alpha=-2.5),
    "sub_alpha": lambda lib: lib._foreach_sub(tensors(lib), tensors(lib, 0.4), alpha=0.5),
    "add_tensor_alpha": lambda lib: lib._foreach_add(tensors(lib), lib.tensor(2.0), alpha=3),
    "mul_tensor": lambda lib: lib._foreach_mul(tensors(lib), lib.tensor(2.0, dtype=lib.float64)),
    "div_tensor": lambda lib: lib._foreach_div(tensors(lib), lib.tensor(4.0)),
    "number_names": lambda lib: lib._foreach_add(self=tensors(lib), scalar=2),
    "scalars_names": lambda lib: lib._foreach_mul(self=tensors(lib), scalars=[1, 2, 3, 4]),
    "other_names": lambda lib: lib._foreach_div(tensors(lib), other=tensors(lib, 0.4)),
    "exponent_name": lambda lib: lib._foreach_pow(tensors(lib), exponent=2),
    "power_of_a_number": lambda lib: lib._foreach_pow(2.0, tensors(lib)),
    "maximum_of_a_tensor": lambda lib: lib._foreach_maximum(tensors(lib), lib.tensor(0.5)),
    "broadcast": lambda lib: lib._foreach_mul([lib.ones(2)], [lib.ones(3, 1)]),
    "promoted": lambda lib: lib._foreach_add([lib.ones(2)], [lib.ones(2, dtype=lib.float64)]),
    "other_dtypes": lambda lib: lib._foreach_mul(tensors(lib, dtype="float64") + wholes(lib), 1.5),
    "tuple": lambda lib: lib._foreach_add(tuple(tensors(lib)), 1),
    "strided": lambda lib: lib._foreach_mul(strided(lib), [2.0, 3.0, 4.0]),
    "whole_quotients": lambda lib: lib._foreach_div(wholes(lib), 2),
    "whole_roots": lambda lib: lib._foreach_sqrt(wholes(lib)),
    "bounded_wholes": lambda lib: lib._foreach_clamp_max(wholes(lib), 2),
    "complex": lambda lib: lib._foreach_mul([lib.ones(2)], 2j),
    "bool_number": lambda lib: lib._foreach_mul(tensors(lib), True),
    "lerp_number": lambda lib: lib._foreach_lerp(tensors(lib), tensors(lib, 0.4), 0.3),
    "lerp_weight": lambda lib: lib._foreach_lerp(tensors(lib), tensors(lib, 0.4), weight=0.3),
    "lerp_numbers": lambda lib: lib._foreach_lerp(tensors(lib), tensors(lib, 0.4), [0.1, 0.2, 0.3, 0.4]),
    "lerp_tensors": lambda lib: lib._foreach_lerp(tensors(lib), tensors(lib, 0.4), tensors(lib, 0.7)),
    "lerp_tensor": lambda lib: lib._foreach_lerp(tensors(lib), tensors(lib, 0.4), lib.tensor(0.5)),
    "norm": lambda lib: lib._foreach_norm(tensors(lib)),
    "norm_1": lambda lib: lib._foreach_norm(tensors(lib), 1),
    "norm_inf": lambda lib: lib._foreach_norm(tensors(lib, sizes=((2, 3), ())), float("inf")),
    "norm_dtype": lambda lib: lib._foreach_norm(tensors(lib), 2, dtype=lib.float64),
    "powsum": lambda lib: lib._foreach_powsum(tensors(lib), 3),
    "powsum_dtype": lambda lib: lib._foreach_powsum(tensors(lib), dtype=lib.float64),
    "max": lambda lib: lib._foreach_max(tensors(lib, sizes=((2, 3), ()))),
    "mm": lambda lib: lib._foreach_mm(tensors(lib, sizes=((2, 3), (1, 2))), tensors(lib, sizes=((3, 2), (2, 4)))),
    "clone": lambda lib: lib._foreach_clone(tensors(lib)),
}  # fmt: skip
for _name in ARITHMETIC:
    CASES |= {
        f"{_name}_number": lambda lib, name=_name: getattr(lib, f"_foreach_{name}")(tensors(lib), 0.5),
        f"{_name}_numbers": lambda lib, name=_name: getattr(lib, f"_foreach_{name}")(
            tensors(lib), [0.5, 2, 0.25, 1]
        ),
        f"{_name}_list": lambda lib, name=_name: getattr(lib, f"_foreach_{name}")(
            tensors(lib), tensors(lib, 0.6)
        ),
    }
for _name in (*ARITHMETIC, "lerp"):
    for _form, _operand in (("list", lambda lib: tensors(lib, 0.6)), ("number", lambda lib: 0.5)):
        more = (lambda lib: (tensors(lib, 0.4),)) if _name == "lerp" else (lambda lib: ())
        CASES[f"{_name}__{_form}"] = lambda lib, name=_name, more=more, operand=_operand: getattr(
            lib, f"_foreach_{name}_"
        )(tensors(lib), *more(lib), operand(lib))
for _name in ("maximum", "minimum"):
    CASES[f"{_name}__nan"] = lambda lib, name=_name: getattr(lib, f"_foreach_{name}_")(
        [lib.tensor([1.0, float("nan"), 2.0])], [lib.tensor([float("nan"), 1.0, 3.0])]
    )
for _name in ("addcmul", "addcdiv"):
    for _form, _factors in (
        ("one", lambda lib: 2.0),
        ("numbers", lambda lib: [2.0, 3, -1.5, 0]),
        ("tensor", lambda lib: lib.tensor([2.0, 3, -1.5, 0])),
    ):
        CASES[f"{_name}_{_form}"] = lambda lib, name=_name, factors=_factors: getattr(
            lib, f"_foreach_{name}"
        )(tensors(lib), tensors(lib, 0.4), tensors(lib, 0.7), factors(lib))
    CASES[f"{_name}_value"] = lambda lib, name=_name: getattr(lib, f"_foreach_{name}_")(
        tensors(lib), tensors(lib, 0.4), tensors(lib, 0.7), value=-0.1
    )
UNARY = sorted(
    name
    for name, function in FOREACH.items()
    if name.endswith("_") and function.__code__.co_argcount == 1 and "zero" not in name
)
WRONG: dict[str, Callable[[Any], Any]] = {
    "lengths": lambda lib: lib._foreach_add_([lib.ones(2), lib.ones(3)], [lib.ones(2)]),
    "lengths of numbers": lambda lib: lib._foreach_mul([lib.ones(2), lib.ones(3)], [1.0]),
    "no tensors": lambda lib: lib._foreach_sqrt([]),
    "no tensors, twice": lambda lib: lib._foreach_add([], []),
    "mixed numbers": lambda lib: lib._foreach_add([lib.ones(2), lib.ones(3)], [1.0, lib.tensor(2.0)]),
    "mixed tensors": lambda lib: lib._foreach_add([lib.ones(2), lib.ones(3)], [lib.tensor(2.0), 1.0]),
    "tensor of one dimension": lambda lib: lib._foreach_add([lib.ones(3)], lib.ones(1)),
    "alpha beside a number": lambda lib: lib._foreach_add([lib.ones(3)], 2, alpha=3),
    "alpha beside numbers": lambda lib: lib._foreach_add([lib.ones(3)], [2], alpha=3),
    "None": lambda lib: lib._foreach_add(None, 1),
    "a tensor": lambda lib: lib._foreach_neg_(lib.ones(2)),
    "a generator": lambda lib: lib._foreach_neg_(lib.ones(2) for _ in range(2)),
    "no operand": lambda lib: lib._foreach_add([lib.ones(2)]),
    "None as operand": lambda lib: lib._foreach_add([lib.ones(2)], None),
    "text": lambda lib: lib._foreach_mul([lib.ones(2)], "2"),
    "a number among tensors": lambda lib: lib._foreach_sqrt([lib.ones(2), 1]),
    "unknown name": lambda lib: lib._foreach_add([lib.ones(2)], others=[lib.ones(2)]),
    "two operands": lambda lib: lib._foreach_add([lib.ones(2)], 1, scalar=2),
    "factors without dimensions": lambda lib: lib._foreach_addcmul(*[[lib.ones(2)]] * 3, lib.tensor(2.0)),
    "too many factors": lambda lib: lib._foreach_addcmul(*[[lib.ones(2)]] * 3, lib.ones(2)),
    "too many numbers": lambda lib: lib._foreach_addcdiv(*[[lib.ones(2)]] * 3, [1.0, 2.0]),
    "a number as factor": lambda lib: lib._foreach_addcdiv([lib.ones(2)], [lib.ones(2)], 2.0),
    "norm of integers": lambda lib: lib._foreach_norm([lib.ones(2, dtype=lib.int64)]),
    "order in words": lambda lib: lib._foreach_norm([lib.ones(2)], "fro"),
    "maximum of nothing": lambda lib: lib._foreach_max([lib.ones(0)]),
    "copy of other sizes": lambda lib: lib._foreach_copy_([lib.ones(2)], [lib.ones(3)]),
    "sizes": lambda lib: lib._foreach_mul([lib.ones(2)], [lib.ones(3)]),
    "a leaf": lambda lib: lib._foreach_add_([lib.ones(2, requires_grad=True)], 1),
    "a result that does not fit": lambda lib: lib._foreach_add_([lib.ones(2, dtype=lib.int64)], 1.5),
    "integer quotients": lambda lib: lib._foreach_addcdiv(*[[lib.ones(2, dtype=lib.int64)]] * 3),
    "difference of bools": lambda lib: lib._foreach_sub([lib.ones(2, dtype=lib.bool)], 1),
}


def test_names_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    assert sorted(FOREACH) == sorted(name for name in dir(torch) if name.startswith("_foreach_"))
    assert all(getattr(fg, name) is function for name, function in FOREACH.items())


def same(mine: Any, theirs: Any) -> None:
    assert type(mine) is type(theirs)
    for x, y in zip(mine, theirs, strict=True):
        assert str(x.dtype).rpartition(".")[2] == str(y.dtype).rpartition(".")[2]
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-6, atol=1e-7, strict=True)


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(CASES))
def test_values_are_pytorchs(case: str) -> None:
    same(CASES[case](fg), CASES[case](pytest.importorskip("torch")))


@pytest.mark.parity
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    same(getattr(fg, name[:-1])(tensors(fg)), getattr(torch, name[:-1])(tensors(torch)))
    mine, theirs = tensors(fg), tensors(torch)
    assert getattr(fg, name)(mine) is mine
    getattr(torch, name)(theirs)
    same(mine, theirs)


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(WRONG[case])
    assert here is there


def test_nothing_is_written_where_lengths_differ() -> None:
    x = fg.zeros(2)
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        fg._foreach_copy_([x], [fg.ones(2), fg.ones(2)])
    assert x.tolist() == [0, 0]


def test_in_place_forms_give_back_the_list(lib: Any) -> None:
    x = [lib.ones(2), lib.ones(3)]
    assert lib._foreach_add_(x, 1) is x
    assert lib._foreach_copy_(x, [lib.zeros(2), lib.ones(3)]) is x
    assert [y.tolist() for y in x] == [[0, 0], [1, 1, 1]]
    assert lib._foreach_zero_(x) is x
    assert not any(y.any() for y in x)


def test_gradients(lib: Any) -> None:
    x = [lib.tensor([1.0, 2.0], requires_grad=True), lib.tensor(3.0, requires_grad=True)]
    scale = lib.tensor(2.0, requires_grad=True)
    squares = lib._foreach_mul(x, x)
    lib._foreach_add_(squares, x, alpha=4)
    total = sum(y.sum() for y in lib._foreach_mul(squares, scale)) + sum(lib._foreach_norm(x))
    total.backward()
    np.testing.assert_allclose(x[0].grad.numpy(), [12 + 5**-0.5, 16 + 2 * 5**-0.5], rtol=1e-6)
    assert x[1].grad.item() == pytest.approx(21)
    assert scale.grad.item() == pytest.approx(5 + 12 + 21)


def test_subclasses_stay() -> None:
    class Mine(fg.Tensor):
        pass

    fg.overrides.install()
    found = fg._foreach_add([fg.ones(2).as_subclass(Mine), fg.ones(2)], 1)
    assert [type(x) for x in found] == [Mine, fg.Tensor]
