"""What the integers of a call say that are more than a number: sizes, regions of memory, lists for each operand.

Note [Integers of a call]: an op names its integers; the names below say how many words of a call one stands for, and
what they have to be. `opinfo.integers` holds this for an op as a word of four bits for each step, the first in the
lowest, and `rt.apply` compares what it gets with it before a shape rule reads a word. What depends on the operands,
such as whether sizes fit theirs, shape rules check.
"""

from __future__ import annotations

from collections.abc import Sequence

(
    END,  # what follows is checked by the shape rule
    NUMBER,  # one integer
    DTYPE,  # one, the number of a dtype
    LAYOUT,  # nothing, a memory format, or GIVEN_STRIDES and strides
    SIZES,  # a rank and as many sizes or strides
    OFFSETS,  # a rank and as many integers
    REGION,  # a rank, as many sizes, as many strides, and an offset in elements
    EACH,  # a length for each operand
) = range(8)

STEP_BITS = 4
MOST_STEPS = 15
"""Steps of a word that stays positive."""

NAMED = {
    "dtype": (DTYPE,),
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


def steps_of(names: Sequence[str]) -> int:
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
