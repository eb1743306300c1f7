"""The text of a tensor: what ``repr`` and ``print`` show.

The layout is PyTorch's, character for character, except that dtypes are named ``fastgrad.float64``:

1. `_pick_format` looks at the values that will be shown and chooses one format for all of them (whole
   numbers, fixed point or scientific) and the width of a column;
2. `_body` nests the brackets, breaks rows at the line width and leaves out the middle of large tensors;
3. `_append_suffixes` adds ``size=``, ``dtype=``, ``grad_fn=`` and so on, on a new line where one is full.

This module knows NumPy arrays and strings, no tensor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastgrad import module_names

__all__ = [
    "PrintOptions",
    "format_cells",
    "format_tensor",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
]

# Beyond these bounds fixed point would waste the line or lose the digits: scientific notation takes over.
_LARGEST_FIXED = 1.0e8
_SMALLEST_FIXED = 1.0e-4
_WIDEST_FIXED_RATIO = 1.0e3


@dataclasses.dataclass
class PrintOptions:
    """How tensors are printed.

    Attributes
    ----------
    precision : int
        Digits after the decimal point.
    threshold : float
        Tensors with more elements than this are summarised with ``...``.
    edgeitems : int
        Elements shown at each end of a summarised dimension.
    linewidth : int
        Characters per line. Suffixes and rows wrap there.
    sci_mode : bool or None
        True or False forces or forbids scientific notation, None decides from the values.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_OPTIONS = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed from now on.

    Options left out keep their value, except `sci_mode`, which falls back to None (automatic).

    Parameters
    ----------
    precision, threshold, edgeitems, linewidth, sci_mode
        See `PrintOptions`.
    profile : {"default", "short", "full"}, optional
        A set of values that is applied first, so that the other arguments refine it.

    Raises
    ------
    ValueError
        If `profile` is none of the three names, or a number is out of range.
    TypeError
        If an option is of another type. All options keep their values then.

    Examples
    --------
    >>> import numpy as np
    >>> set_printoptions(precision=2)
    >>> format_tensor(np.array([1.12345]), dtype_name="float32")
    'tensor([1.12])'
    >>> set_printoptions(profile="default")
    >>> format_tensor(np.array([1.12345]), dtype_name="float32")
    'tensor([1.1235])'
    """
    if profile is not None and profile not in _PROFILES:
        raise ValueError(
            f"set_printoptions(): profile must be one of {', '.join(map(repr, _PROFILES))}, got {profile!r}"
        )
    chosen = dict(_PROFILES.get(profile, {})) if profile is not None else {}
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen.update({name: _option(name, value) for name, value in given.items() if value is not None})
    if not isinstance(sci_mode, (bool, types.NoneType)):
        raise TypeError(
            f"set_printoptions(): argument 'sci_mode' must be bool or None, not {type(sci_mode).__name__}"
        )
    for name, value in chosen.items():
        setattr(_OPTIONS, name, value)
    _OPTIONS.sci_mode = sci_mode


_RANGES = {
    "precision": (0, 1000),
    "edgeitems": (0, math.inf),
    "linewidth": (1, math.inf),
    "threshold": (0, math.inf),
}
"""The least and the largest value of each option."""


def _option(name: str, value: Any) -> float:
    """An option as a number; whole, but for the threshold, which may be infinite."""
    if name == "threshold" and isinstance(value, float):
        number: float = value
    else:
        try:
            number = operator.index(value)
        except TypeError:
            kind = "a number" if name == "threshold" else "int"
            raise TypeError(
                f"set_printoptions(): argument '{name}' must be {kind}, not {type(value).__name__}"
            ) from None
    least, most = _RANGES[name]
    if not least <= number <= most:
        raise ValueError(
            f"set_printoptions(): argument '{name}' must be from {least} to {most}, but is {number}"
        )
    return number


def get_printoptions() -> dict[str, Any]:
    """Return the options in force, as keyword arguments for `set_printoptions`.

    Examples
    --------
    >>> get_printoptions()["linewidth"]
    80
    """
    return dataclasses.asdict(_OPTIONS)


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Set print options inside a ``with`` block and restore the former ones after it.

    Parameters
    ----------
    **kwargs
        The arguments of `set_printoptions`.

    Examples
    --------
    >>> import numpy as np
    >>> with printoptions(sci_mode=True):
    ...     format_tensor(np.array([1.5]), dtype_name="float32")
    'tensor([1.5000e+00])'
    """
    before = get_printoptions()
    try:
        set_printoptions(**kwargs)
        yield
    finally:
        set_printoptions(**before)


def format_tensor(
    array: np.ndarray,
    *,
    dtype_name: str,
    device: str = "cpu",
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    prefix: str = "tensor(",
    default_dtype: str = "float32",
) -> str:
    """Return the text of a tensor with the values of `array`.

    Parameters
    ----------
    array : numpy.ndarray
        The values: booleans, integers, floats or complex numbers, of any shape.
    dtype_name : str
        Name of the tensor's dtype, such as ``"float32"``. It is shown unless the values tell it.
    device : str
        Shown unless it is ``"cpu"``. On ``"meta"`` there are no values to show, and of `array` the shape alone counts.
    requires_grad : bool
        Shown for leaves, that is, without `grad_fn_name`.
    grad_fn_name : str, optional
        Name of the node that made the tensor, such as ``"MulBackward0"``.
    prefix : str
        Opening text. Its length is the indentation of the following lines.
    default_dtype : str
        The floating dtype that needs no mention; nor does the complex one with such parts.

    Returns
    -------
    str
        Text of one or more lines, without a newline at its end.

    Examples
    --------
    >>> import numpy as np
    >>> print(format_tensor(np.eye(2), dtype_name="float64", requires_grad=True))
    tensor([[1., 0.],
            [0., 1.]], dtype=fastgrad.float64, requires_grad=True)
    >>> format_tensor(np.empty((0, 3), np.float32), dtype_name="float32")
    'tensor([], size=(0, 3))'
    """
    indent = len(prefix)
    # No element of an empty tensor can tell its shape or whether it holds integers.
    empty = array.size == 0 or device == "meta"
    hides_shape = array.ndim != 1 if empty else _OPTIONS.edgeitems == 0
    suffixes = []
    if device != "cpu":
        suffixes.append(f"device='{device}'")
    if hides_shape or device == "meta":
        suffixes.append(f"size={tuple(array.shape)}")
    told = ("int64", "bool", "complex128" if default_dtype == "float64" else "complex64")
    if dtype_name != default_dtype and (empty or dtype_name not in told):
        suffixes.append(f"dtype={module_names.shown}.{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")

    if device == "meta":
        text = "..."
    elif empty:
        text = "[]"
    else:
        summarize = array.size > _OPTIONS.threshold
        show, width = _pick_format(_visible_part(array) if summarize else array)
        text = _body(array, indent, summarize, show, width)
    return _append_suffixes(prefix + text, suffixes, indent) + ")"


def format_cells(array: np.ndarray) -> list[list[str]]:
    """Return the texts of the elements of a matrix, in the format that `format_tensor` shows them in.

    Parameters
    ----------
    array : numpy.ndarray
        Of two dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> format_cells(np.array([[1.0, 0.25]]))
    [['1.0000', '0.2500']]
    """
    show = _pick_format(array)[0] if array.size else str
    return [[show(value).strip() for value in row] for row in array.tolist()]


def _visible_part(array: np.ndarray) -> np.ndarray:
    """The elements of a summarised `array` that are printed."""
    edge = _OPTIONS.edgeitems
    kept = [[*range(edge), *range(n - edge, n)] if n > 2 * edge else range(n) for n in array.shape]
    return array[np.ix_(*(np.asarray(k, dtype=np.intp) for k in kept))]


def _pick_format(values: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """Choose the format of an element, and the width of a column, for all `values`."""
    if values.dtype.kind == "c":
        return _complex_format(values)
    show, width = _real_format(values)
    return (lambda value: show(value).rjust(width)), width


def _complex_format(values: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """The same for complex numbers, whose parts have each a format of their own."""
    (real, width), (imag, imag_width) = _real_format(values.real), _real_format(values.imag)

    def show(value: complex) -> str:
        second = imag(value.imag)
        return f"{real(value.real).rjust(width)}{'' if second[0] in '+-' else '+'}{second}j"

    return show, width + imag_width + 1


def _real_format(values: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """The same for real numbers, without spaces before them."""
    if values.dtype.kind != "f":
        width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=1)
        return str, width

    flat = values.reshape(-1)
    decisive = flat[np.isfinite(flat) & (flat != 0)]
    if decisive.size == 0:
        return _show_whole, 1
    precision = _OPTIONS.precision
    if _needs_scientific(decisive):
        show: Callable[[Any], str] = f"{{:.{precision}e}}".format
    elif np.array_equal(decisive, np.ceil(decisive)):
        show = _show_whole
    else:
        show = f"{{:.{precision}f}}".format
    return show, max(len(show(v)) for v in decisive.tolist())


def _needs_scientific(decisive: np.ndarray) -> bool:
    """Whether finite nonzero values spread too far, or lie too far from one, for fixed point."""
    if _OPTIONS.sci_mode is not None:
        return _OPTIONS.sci_mode
    magnitudes = np.abs(decisive).astype(np.float64)
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    too_wide = largest / smallest > _WIDEST_FIXED_RATIO
    return too_wide or largest > _LARGEST_FIXED or smallest < _SMALLEST_FIXED


def _show_whole(value: float) -> str:
    """A float without a fraction: a point at its end tells it from an integer."""
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _body(array: np.ndarray, indent: int, summarize: bool, show: Callable[[Any], str], width: int) -> str:
    """The brackets and values of `array`, whose first line starts at column `indent`."""
    if array.ndim == 0:
        return show(array.item())
    edge = _OPTIONS.edgeitems
    shortened = summarize and len(array) > 2 * edge
    head, tail = (array[:edge], array[len(array) - edge :]) if shortened else (array, array[:0])

    if array.ndim > 1:
        parts = [_body(a, indent + 1, summarize, show, width) for a in head]
        parts += ["..."] if shortened else []
        parts += [_body(a, indent + 1, summarize, show, width) for a in tail]
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"

    cells = [show(v) for v in head.tolist()]
    if shortened:
        cells += [" ..." if edge else "..."]
        cells += [show(v) for v in tail.tolist()]
    per_line = max(1, (_OPTIONS.linewidth - indent) // (width + len(", ")))
    rows = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"


def _append_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """Append each suffix to the last line if it fits there, else on a line of its own."""
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + len(", ") > _OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + len(", ")
    return text
