"""What the integers of a call say that are more than a number: sizes, regions of memory, lists for each operand.

Note [Integers of a call]: an op names its integers; the names below say how many words of a call one stands for, and
what they have to be. `opinfo.integers` holds this for an op as a word of four bits for each step, the first in the
lowest, and `rt.apply` compares what it gets with it before a shape rule reads a word. What depends on the operands,
such as whether sizes fit theirs, shape rules check.
"""

from __future__ import annotations

import functools

from fastgrad.native.contracts.record import Part

(
    END,  # what follows is checked by the shape rule
    NUMBER,  # one integer
    DTYPE,  # one, the number of a dtype
    LAYOUT,  # nothing, a memory format, or GIVEN_STRIDES and strides
    SIZES,  # a rank and as many sizes or strides
    OFFSETS,  # a rank and as many integers
    REGION,  # a rank, as many sizes, as many strides, and an offset in elements, which may be negative
    EACH,  # a length for each operand
    DEVICE,  # one, the number of a device
) = range(9)

STEP_BITS = 4
MOST_STEPS = 15
"""Steps of a word that stays positive."""

NAMED = {
    "dtype": (DTYPE,),
    "device": (DEVICE,),
    "*layout": (LAYOUT,),
    "*target": (SIZES,),  # of the result
    "*part": (REGION, SIZES),  # a view in its base, and the strides of the base
    "*placed": (REGION, SIZES, SIZES),  # the same, then the sizes of the base
    "*reduced": (SIZES,),  # what a reduction was of; then its dimensions
    "*spread": (SIZES, SIZES),  # the result, then those
    "*padded": (
        OFFSETS,
        SIZES,
    ),  # how far each dimension begins before that of the operand; sizes with padding
    "*cropped": (OFFSETS, SIZES, SIZES),  # the same, then the sizes of the result
    "*each": (EACH,),
    "*parts": (EACH, SIZES),  # the same, then the sizes of the result
}
"""Names of integers that stand for others than one number. Any other name with a star takes the rest unchecked."""


@functools.cache
def steps_of(names: tuple[str, ...]) -> int:
    """The word of `opinfo.integers` for integers of these names; 0 if all are numbers.

    Raises
    ------
    ValueError
        If there are more steps than the word has room for.
    """
    steps = [
        step for name in names for step in NAMED.get(name, (END,) if name.startswith("*") else (NUMBER,))
    ]
    while steps and steps[-1] in (END, NUMBER):
        steps.pop()
    if len(steps) > MOST_STEPS or END in steps:
        raise ValueError(
            f"integers of an op take at most {MOST_STEPS} steps, unchecked ones last, but got {names}"
        )
    return sum(step << k * STEP_BITS for k, step in enumerate(steps))


# --- integers that stand first, by name -------------------------------------------------------------------------------


class Integers(Part):
    """The integers that stand first in a call: an op declares them by `names`, its shape rule reads them by field.

    Parameters
    ----------
    name : str
        Compiled code casts the pointer to the integers with ``integers.<name>`` (see `base.integers`). The field
        ``rest`` is where what follows them begins.
    *fields : str
        What they are, in order.
    **several : tuple of str
        What follows: fields of several words, and the names of these.
    """

    def __init__(self, name: str, /, *fields: str, **several: tuple[str, ...]) -> None:
        lengths = {field: len(names) for field, names in several.items()}
        super().__init__(f"integers.{name}", **dict.fromkeys(fields, 1), **lengths, rest=0)
        self.names = (*fields, *(name for names in several.values() for name in names))


ALONG = Integers("along", "dim")
AT_OFFSET = Integers("at_offset", "offset")
TRANSPOSED = Integers("transposed", "dim0", "dim1")
PERMUTED = Integers("permuted", "inverse")  # then the dimensions
REVERSED = Integers("reversed", "dims")  # a mask
SLICED = Integers("sliced", "dim", "start", "end", "step")
SELECTED = Integers("selected", "dim", "index")
UNFOLDED = Integers("unfolded", "dim", "size", "step")
NARROWED = Integers("narrowed", "dim", "start", "length")
DIAGONAL = Integers("diagonal", "offset", "dim1", "dim2")
LISTED = Integers("listed", "count")  # then as many numbers: a rank and sizes, say
AS_DTYPE = Integers("as_dtype", "dtype")
REDUCED = Integers("reduced", "keepdim")  # then the dimensions
SPREAD = Integers("spread", "divisor", "keepdim")  # a float as its bits; then the dimensions
REDUCED_AGAIN = Integers(
    "reduced_again", "mean"
)  # whether it was one; then `LISTED` twice and the dimensions
OF_ROWS = Integers("of_rows", "dim", "keepdim")
SORTED = Integers("sorted", "dim", "k", "largest")
INDEXED = Integers("indexed", "first", "form")
STACKED, FROM_FRONT = 1, 2
"""Bits of the form of index tensors: one tensor holds all, no index counts from the end."""
INDEX_ONTO = Integers("index_onto", "first", "form", "accumulate")
ONE_NUMBER = Integers("one_number", "bits")
LOSS = Integers("loss", "mean")  # then the dimensions
CLASS_LOSS = Integers("class_loss", "reduction", "ignore_index")
ATTENTION = Integers("attention", "causal", "scale")  # the last a float as its bits
GEOMETRY = Integers(
    "geometry", "groups",
    stride=("stride_d", "stride_h", "stride_w"), padding=("padding_d", "padding_h", "padding_w"),
    dilation=("dilation_d", "dilation_h", "dilation_w"),
)  # fmt: skip
WINDOWS = Integers(
    "windows",
    window=("kernel_h", "kernel_w"), stride=("stride_h", "stride_w"), padding=("padding_h", "padding_w"),
    dilation=("dilation_h", "dilation_w"),
)  # fmt: skip
IMAGES = Integers("images", "channels_last")  # then `LISTED`: sizes of the result
PADDED = Integers("padded", "mode", "value", "channels_last")  # the value a float as its bits
CROPPED = Integers("cropped", "mode", "channels_last")
GROUPS = Integers("groups", "present")  # a mask of places; then what the kernel is set to
EXTENTS = Integers("extents", "eps", "n", "groups", "c", "s")  # of rows as normalisations divide them
CREATED = Integers("created", "dtype", "device", "which", "a", "b")  # then `LISTED`: sizes
"""A new tensor: of the number `a` (an int, a float as its bits, or a bool, as `which` says), from `a` on in steps of
`b`, or up to `b` (as `which` says), or of random numbers of the kind `which` with the numbers `a` and `b`."""
UNSET = 3
"""In place of what sort of number `a` is: the elements are not set."""
PLACES = Integers("places", "by_rows")
INTEGERS = (
    ALONG, AT_OFFSET, TRANSPOSED, PERMUTED, REVERSED, SLICED, SELECTED, UNFOLDED, NARROWED, DIAGONAL, LISTED,
    AS_DTYPE, REDUCED,
    SPREAD, REDUCED_AGAIN, OF_ROWS, SORTED, INDEXED, INDEX_ONTO, ONE_NUMBER, LOSS, CLASS_LOSS, ATTENTION,
    GEOMETRY, WINDOWS, IMAGES, PADDED, CROPPED, GROUPS, EXTENTS, CREATED, PLACES,
)  # fmt: skip
