"""`x[...]` by ints, slices, None and `...`: views, an op for each item, without Python.

`functions.index` does what is left: index tensors, lists and masks, what is recorded, and what is wrong, of which it
says so.
"""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import advance, native, native_once, runtime, stack_words, tensor, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    ellipsis,
    int_type,
    none,
    py_err_clear,
    py_err_occurred,
    py_integer_value,
    py_tuple_item,
    py_tuple_size,
    slice_type,
    tuple_type,
)
from fastgrad.native.contracts.integers import SELECTED, SLICED
from fastgrad.native.dispatch.call import call_entry
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.objects.handles import is_batched, type_of, wrap
from fastgrad.native.python.data import left_to_python
from fastgrad.native.python.recorder import is_recording

SLICE_BOUNDS = 2  # words of a slice before start, stop and step
FARTHEST = (1 << 63) - 1
NO_NUMBER = -(1 << 63)
LEFT = -1  # a failure of which Python says what it is
BEYOND = 1 << 20  # more dimensions than there are

SELECT_INTEGERS, SLICE_INTEGERS = len(SELECTED.names), len(SLICED.names)

call_room = stack_words(2 + SLICE_INTEGERS)


@native
def item_of(index, k):
    """Item `k` of an index, borrowed."""
    return py_tuple_item(index, k) if type_of(index) == tuple_type() else index


@native
def dims_of(index, n):
    """How many dimensions items stand for; `BEYOND` or more if they are more than ints, slices, None and one `...`."""
    count, ellipses = 0, 0
    for k in range(n):
        item = item_of(index, k)
        if item == ellipsis():
            ellipses += 1
        elif type_of(item) == int_type() or type_of(item) == slice_type():
            count += 1
        elif item != none():
            count += BEYOND
    return count if ellipses < 2 else BEYOND


@native
def number_of(o, absent):
    """An int, `absent` for None, or NO_NUMBER for anything else."""
    if o == none():
        return absent
    if type_of(o) != int_type():
        return NO_NUMBER
    value = py_integer_value(o)
    if value == -1 and py_err_occurred() != 0:
        py_err_clear()
        return NO_NUMBER
    return value


@native
def integers_of(item, attrs):
    """Write what an op gets of an item behind the dimension: how many integers there are then, or LEFT."""
    if item == none():
        return 1
    if type_of(item) == int_type():
        at = integers.selected(attrs)
        at.index = number_of(item, 0)
        return SELECT_INTEGERS if at.index != NO_NUMBER else LEFT
    bounds = advance(words(item), SLICE_BOUNDS)
    of = integers.sliced(attrs)
    of.start = number_of(bounds[0], 0)
    of.end = number_of(bounds[1], FARTHEST)
    of.step = number_of(bounds[2], 1)
    return SLICE_INTEGERS if of.start != NO_NUMBER and of.end != NO_NUMBER and of.step > 0 else LEFT


@native
def is_whole(item):
    """Whether an item is a slice of all there is."""
    if type_of(item) != slice_type():
        return False
    bounds = advance(words(item), SLICE_BOUNDS)
    return bounds[0] == none() and bounds[1] == none() and bounds[2] == none()


@native
def part_of(h, dim, item):
    """The view that an item makes of a dimension; takes over `h`. A handle or a failure."""
    if is_whole(item):
        return h
    rt = runtime()
    op = rt.slice_op
    if item == none():
        op = rt.unsqueeze_op
    elif type_of(item) == int_type():
        op = rt.select_op
    ins = words(call_room())
    attrs = advance(ins, 1)
    ins[0] = h
    integers.along(attrs).dim = dim
    n = integers_of(item, attrs)
    outs = advance(attrs, SLICE_INTEGERS)
    made = call_entry(op, 1, ins, n, attrs, outs, 0) if not failed(n) else n
    drop(h)
    return outs[0] if made > 0 else LEFT


@native
def view_at(h, index):
    """What items make of a tensor, one after the other: the tensor itself if all are whole. Or NotImplemented."""
    n = py_tuple_size(index) if type_of(index) == tuple_type() else 1
    rest = tensor(h).ndim - dims_of(index, n)
    if rest < 0 or is_recording() or is_batched(tensor(h).pyobj):
        return left_to_python()
    enter()
    retain(h)
    out = h
    dim = 0
    for k in range(n):
        item = item_of(index, k)
        if item == ellipsis():
            dim += rest
        elif not failed(out):
            out = part_of(out, dim, item)
            if type_of(item) != int_type():
                dim += 1
    return wrap(out) if not failed(out) else view_refused()


@native_once
def view_refused():
    """Leave it to Python, unless an exception is set."""
    return left_to_python() if py_err_occurred() == 0 else 0
