"""`Variable`, as programs from before tensors had gradients call it, beside PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fastgrad as fg


def outcome(lib: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a variable over a tensor is, with the number of warnings, or the class of the error."""
    x = lib.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out = lib.autograd.Variable(x, *arguments, **options)
        except Exception as error:
            return type(error)
    return out.tolist(), out.requires_grad, out.is_leaf, out is x, out.data_ptr() == x.data_ptr(), len(caught)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        ((True,), {}),
        ((False, True), {}),
        ((True, True), {}),
        ((), {"volatile": True}),
        ((), {"volatile": False, "requires_grad": True}),
        ((), {"volatile": 1}),
        ((), {"requires_grad": 1}),
        ((), {"volatile": None}),
        ((), {"volatile": "yes"}),
        ((), {"requires_grad": None}),
        ((), {"creator": None}),
    ],
)
def test_a_variable_is_what_it_is_in_pytorch(arguments, options):
    torch = pytest.importorskip("torch")
    assert outcome(fg, arguments, options) == outcome(torch, arguments, options)


def test_the_warning_of_volatile_says_what_to_do():
    with pytest.warns(UserWarning, match=r"volatile was removed.*no_grad") as caught:
        fg.autograd.Variable(fg.ones(2), volatile=True)
    assert [warning.filename for warning in caught] == [__file__]
