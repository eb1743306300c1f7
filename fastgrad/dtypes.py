"""Element types, as objects with PyTorch's names and printing."""

from __future__ import annotations

import numpy as np

from fastgrad import module_names
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX,
    DISCRETE,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    HALVES,
    INEXACT,
    INT8,
    INT16,
    ITEMSIZES,
    NO_DTYPE,
    SUPPORTED_DTYPES,
    UINT8,
    UINT16,
    complex_of,
    real_of,
    with_unsigned,
)

_NUMPY = {
    "bool": np.bool_, "uint8": np.uint8, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "float16": np.float16, "float32": np.float32, "float64": np.float64,
    "complex64": np.complex64, "complex128": np.complex128,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
_TYPE_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short",
    "int32": "Int", "int64": "Long", "float16": "Half", "bfloat16": "BFloat16",
    "float32": "Float", "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}  # fmt: skip


class dtype:  # noqa: N801 - the name that PyTorch's users write
    """An element type such as ``fastgrad.float32``.

    Attributes
    ----------
    name : str
    itemsize : int
        Bytes of an element.
    is_floating_point, is_complex, is_signed : bool
    inexact : bool
        Floating or complex: what gradients may be of.
    """

    __slots__ = (
        "arithmetic", "code", "inexact", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy",
    )  # fmt: skip
    arithmetic: np.dtype | None
    code: int
    inexact: bool
    is_complex: bool
    is_floating_point: bool
    is_signed: bool
    itemsize: int
    name: str
    numpy: np.dtype | None

    def __new__(cls, *_: object, **__: object) -> dtype:
        """Refuse: none but those of this module are known."""
        raise TypeError("cannot create 'fastgrad.dtype' instances: there is one for each element type")

    @property
    def type_name(self) -> str:
        """The name that messages use: Float, Long, ..."""
        return _TYPE_NAMES.get(self.name, self.name)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts are of this one; itself if it is complex.

        Of bfloat16 it is complex64, as in PyTorch.

        Raises
        ------
        NotImplementedError
            If there are no complex numbers of such parts: there are none of integers, and fastgrad has none of float16.
        """
        if not self.inexact or self.code == FLOAT16:
            raise NotImplementedError(f"to_complex(): there is no complex dtype for {self}")
        return ALL[complex_of(self.code)]

    def to_real(self) -> dtype:
        """The dtype of the parts, if this one is complex; itself otherwise."""
        return ALL[real_of(self.code)] if self.is_complex else self

    def __repr__(self) -> str:
        return f"{module_names.shown}.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (of_name, (self.name,))


def _made(code: int) -> dtype:
    d: dtype = object.__new__(dtype)
    d.code = code
    d.name = DTYPES[code]
    d.itemsize = ITEMSIZES[code]
    d.is_floating_point = FLOAT16 <= code <= FLOAT64
    d.is_signed = code != BOOL and not d.name.startswith("u")
    d.is_complex = code in COMPLEX
    d.inexact = code in INEXACT
    d.numpy = np.dtype(_NUMPY[d.name]) if d.name in _NUMPY else None  # its dtype for the same elements
    d.arithmetic = np.dtype(np.float32) if code in HALVES else d.numpy  # and the one that it computes in
    return d


ALL = tuple(_made(code) for code in range(len(DTYPES)))
"""Every dtype by code; those that no kernel supports yet are not exported."""


LIMITS = {
    code: (-most if DTYPES[code].startswith("u") else -most - 1, most)
    for code in DISCRETE
    if code != BOOL
    for most in [(1 << 8 * ITEMSIZES[code] - (not DTYPES[code].startswith("u"))) - 1]
}
"""The numbers that integer dtypes take without overflow, by code; negative ones wrap around where there is no sign."""


def of_code(code: int) -> dtype:
    """The dtype object of a code; ValueError where there is none."""
    if type(code) is not int or not 0 <= code < len(ALL):
        raise ValueError(f"expected the code of a dtype, 0 to {len(ALL) - 1}, but got {code!r}")
    return ALL[code]


def of_name(name: str) -> dtype:
    """The dtype object of a name such as ``float32``; ValueError where there is none."""
    if name not in DTYPES:
        raise ValueError(f"expected the name of a dtype, one of {', '.join(DTYPES)}, but got {name!r}")
    return ALL[DTYPES.index(name)]


bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64 = (ALL[code] for code in DISCRETE)
float16, bfloat16, float32, float64 = (ALL[code] for code in FLOATS)
complex64, complex128 = (ALL[code] for code in COMPLEX)
SUPPORTED = tuple(ALL[code] for code in SUPPORTED_DTYPES)
TYPED = tuple(d for d in SUPPORTED if d.name not in ("uint16", "uint32", "uint64"))
"""Those that have an older name, such as ``FloatTensor``."""
FLOATING = (float16, bfloat16, float32, float64)
_BY_TYPE = {float: float64, int: int64, bool: bool_, complex: complex128}
_BY_NUMPY = {d.numpy: d for d in SUPPORTED if d.numpy is not None}


def of_numpy(array_dtype: np.dtype) -> dtype:
    """The dtype of a NumPy dtype; TypeError where there is none."""
    found = _BY_NUMPY.get(array_dtype)
    if found is None:
        names = ", ".join(d.name for d in _BY_NUMPY.values())
        raise TypeError(
            f"can't convert np.ndarray of type {array_dtype}. The only supported types are: {names}."
        )
    return found


def as_dtype(value: object) -> dtype:
    """A dtype from a dtype, or from one of the types ``float`` (float64), ``int`` (int64) and ``bool``."""
    found = value if isinstance(value, dtype) else _BY_TYPE.get(value) if isinstance(value, type) else None
    if found is None:
        raise TypeError(f"expected a fastgrad.dtype, but got {value!r}")
    if found.code not in SUPPORTED_DTYPES:
        raise TypeError(f"dtype {found.name} is not supported yet")
    return found


def promote_types(type1: object, type2: object) -> dtype:
    """The smallest dtype that holds both.

    Parameters
    ----------
    type1, type2 : dtype

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.promote_types(fg.int64, fg.float32)
    fastgrad.float32
    """
    low, high = sorted((as_dtype(type1).code, as_dtype(type2).code))
    if high >= UINT16 and low != high:
        wide = with_unsigned(low, high)
        if wide == NO_DTYPE:
            raise RuntimeError(
                f"Promotion for uint64 beside signed integers is not supported, attempted to promote "
                f"{ALL[high].type_name} and {ALL[low].type_name}"
            )
        return ALL[wide]
    if (low, high) == (UINT8, INT8):
        return ALL[INT16]
    if (low, high) == (FLOAT16, BFLOAT16):
        return ALL[FLOAT32]
    if (low, high) == (FLOAT64, complex64.code):
        return complex128
    return ALL[high]


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether elements of a dtype may be stored as another one in place: no fractions as integers, no numbers as bools.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.can_cast(fg.float64, fg.float32), fg.can_cast(fg.float32, fg.int64)
    (True, False)
    """
    for name, given in (("from_", from_), ("to", to)):
        if not isinstance(given, dtype):
            raise TypeError(f"can_cast(): argument '{name}' must be a dtype, not {type(given).__name__}")
    if from_.is_complex:
        return to.is_complex
    if from_ in FLOATING:
        return to in FLOATING or to.is_complex
    return from_ is bool_ or to is not bool_


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats: float32 unless `set_default_dtype` changed it."""
    from fastgrad.native.build.loader import runtime_get

    return ALL[runtime_get("default_dtype")]


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of tensors made from Python floats.

    Raises
    ------
    TypeError
        If `d` is not a floating-point dtype.
    """
    from fastgrad.native.build.loader import runtime_set

    if not isinstance(d, dtype) or d not in FLOATING:
        raise TypeError(f"only floating-point types are supported as the default type, but got {d!r}")
    runtime_set("default_dtype", d.code)


class finfo:  # noqa: N801 - the name that PyTorch's users write
    """What a floating-point dtype can hold.

    Parameters
    ----------
    type : dtype, optional
        The default dtype if not given.

    Attributes
    ----------
    bits : int
    eps : float
        The distance from 1 to the next number.
    max, min : float
        The largest number, and its negative.
    tiny, smallest_normal : float
        The smallest positive number with all its digits.
    resolution : float
        ``10 ** -digits`` for the decimal digits that it can tell apart.
    dtype : str
        The name of the dtype.

    Raises
    ------
    TypeError
        If `type` is no floating-point dtype; of a complex one the parts count.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.finfo(fg.float16).max
    65504.0
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    bits: int
    dtype: str
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: object = None) -> None:  # noqa: A002 - as PyTorch calls it
        found = get_default_dtype() if type is None else type
        if not isinstance(found, dtype):
            raise TypeError(f"finfo(): argument 'type' must be a dtype, not {found!r}")
        if found.is_complex:
            found = ALL[real_of(found.code)]
        if found not in FLOATING and found.name not in _SMALL:
            raise TypeError(
                f"fastgrad.finfo() requires a floating point input type, but got {found}; those are "
                f"{', '.join(map(repr, FLOATING))}"
            )
        mantissa, least, digits = _FORMATS.get(found.name) or _SMALL[found.name][:3]
        self.bits = 8 * found.itemsize
        self.eps = 2.0**-mantissa
        self.max = (2 - self.eps) * 2.0 ** (1 - least) if found in FLOATING else _SMALL[found.name][3]
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**least
        self.resolution = float(f"1e-{digits}")
        self.dtype = found.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:  # noqa: N801 - the name that PyTorch's users write
    """What an integer dtype can hold.

    Parameters
    ----------
    type : dtype

    Attributes
    ----------
    bits : int
    max, min : int
        The largest and the smallest number.
    dtype : str
        The name of the dtype.

    Raises
    ------
    TypeError
        If `type` is no integer dtype.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.iinfo(fg.int32).max
    2147483647
    """

    __slots__ = ("bits", "dtype", "max", "min")
    bits: int
    dtype: str
    max: int
    min: int

    def __init__(self, type: object) -> None:  # noqa: A002 - as PyTorch calls it
        if not isinstance(type, dtype):
            raise TypeError(f"iinfo(): argument 'type' must be a dtype, not {type!r}")
        if type in FLOATING or type is bool_ or type.is_complex:
            raise TypeError(
                f"fastgrad.iinfo() requires an integer input type, but got {type}"
                + ("; use fastgrad.finfo to handle it" if type in FLOATING else "")
            )
        self.bits = 8 * type.itemsize
        signed = type.is_signed
        self.max = (1 << (self.bits - signed)) - 1
        self.min = -self.max - 1 if signed else 0
        self.dtype = type.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


# Bits of the mantissa, the exponent of the smallest normal number, decimal digits.
_SMALL = {
    "float8_e4m3fn": (3, -6, 0, 448.0),
    "float8_e4m3fnuz": (3, -7, 0, 240.0),
    "float8_e5m2": (2, -14, 0, 57344.0),
    "float8_e5m2fnuz": (3, -15, 0, 57344.0),
}
"""Formats that programs ask about and there are no tensors of: as below, and the largest number."""
_FORMATS = {
    "float16": (10, -14, 3),
    "bfloat16": (7, -126, 2),
    "float32": (23, -126, 6),
    "float64": (52, -1022, 15),
}
