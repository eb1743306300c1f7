"""Files that somebody made or damaged: they run nothing, read nothing out of bounds, and end in an exception.

`archive_of` writes an archive with checksums that fit, around any pickle and any bytes for the memory of tensors.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import random
import struct
import sys
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.functions import storage
from fastgrad.nn.parameter import Parameter

RAN: list[str] = []


def run(*args: Any) -> str:
    RAN.append("run")
    return "ran"


class Hostile:
    """A class whose every door is a trap."""

    def __new__(cls, *args: Any) -> Hostile:
        RAN.append("new")
        return super().__new__(cls)

    def __init__(self, *args: Any) -> None:
        RAN.append("init")

    def __setstate__(self, state: Any) -> None:
        RAN.append("setstate")


def archive_of(data: bytes, storages: dict[str, bytes] | None = None, version: str = "1") -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("version", version)
        archive.writestr("data.pkl", data)
        for key, content in (storages or {}).items():
            archive.writestr(f"data/{key}", content)
    file.seek(0)
    return file


def parts_of(obj: Any) -> tuple[bytes, dict[str, bytes]]:
    file = io.BytesIO()
    fg.save(obj, file)
    with zipfile.ZipFile(file) as archive:
        names = [n for n in archive.namelist() if n.startswith("data/")]
        return archive.read("data.pkl"), {n.removeprefix("data/"): archive.read(n) for n in names}


def refuses(data: bytes, match: str = "", storages: dict[str, bytes] | None = None) -> None:
    RAN.clear()
    with pytest.raises(pickle.UnpicklingError, match=f"(?s)Weights only load failed.*{match}"):
        fg.load(archive_of(data, storages))
    assert not RAN


def op(name: str) -> bytes:
    return next(o.code for o in pickletools.opcodes if o.name == name).encode("latin1")


def text(value: str) -> bytes:
    raw = value.encode()
    return op("BINUNICODE") + struct.pack("<I", len(raw)) + raw


def named(path: str) -> bytes:
    module, _, name = path.rpartition(".")
    return text(module) + text(name) + op("STACK_GLOBAL")


HERE = f"{__name__}."
NONE, EMPTY_TUPLE, STOP, REDUCE, BUILD = (op(n) for n in ("NONE", "EMPTY_TUPLE", "STOP", "REDUCE", "BUILD"))
START = op("PROTO") + b"\x04"
DICT = op("EMPTY_DICT") + text("a") + NONE + op("SETITEM")


# --- calls -----------------------------------------------------------------------------------------------------


class Reduces:
    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (os.system, ("true",)), (eval, ("1",)), (exec, ("1",)), (print, ()), (getattr, (1, "real")),
        (open, ("/dev/null",)), (__import__, ("os",)), (type, ("A", (), {})), (sys.exit, ()),
        (compile, ("1", "", "eval")), (setattr, (int, "x", 1)),
    ],
)  # fmt: skip
def test_names_that_are_not_on_the_list(function: Any, args: tuple):
    refuses(pickle.dumps(Reduces(function, *args), 4), r"Unsupported global: GLOBAL \w+\.\w+")


def test_instances_of_other_classes():
    refuses(pickle.dumps(Hostile(), 4), "Hostile was not an allowed global")
    refuses(START + named(HERE + "run") + EMPTY_TUPLE + REDUCE + STOP, "run was not an allowed global")


def test_the_error_says_what_to_do():
    with pytest.raises(pickle.UnpicklingError) as caught:
        fg.load(archive_of(pickle.dumps(Hostile(), 4)))
    for part in (
        f"add_safe_globals([{HERE}Hostile])",
        f"safe_globals([{HERE}Hostile])",
        "weights_only=False",
    ):
        assert part in str(caught.value)


def test_dotted_names_lead_nowhere():
    for name in ("collections.OrderedDict.fromkeys", "fastgrad.tensor.Tensor.__init__.__globals__"):
        module, _, rest = name.partition(".")
        refuses(START + text(module) + text(rest) + op("STACK_GLOBAL") + STOP, "Unsupported global")
        refuses(START + op("GLOBAL") + f"{module}\n{rest}\n".encode() + STOP, "Unsupported global")


def test_classes_that_may_be_named_may_not_all_be_called():
    for name in (
        "builtins.list",
        "builtins.str",
        "fastgrad.tensor.Tensor",
        "fastgrad.nn.parameter.Parameter",
    ):
        refuses(START + named(name) + EMPTY_TUPLE + REDUCE + STOP, f"calls {name}, which is not allowed")
        refuses(START + named(name) + EMPTY_TUPLE + op("NEWOBJ") + STOP, "not allowed")
        refuses(START + named(name) + EMPTY_TUPLE + op("EMPTY_DICT") + op("NEWOBJ_EX") + STOP, "not allowed")


def test_what_is_no_class_is_not_called():
    refuses(START + text("os.system") + EMPTY_TUPLE + REDUCE + STOP, "calls an object of class builtins.str")
    refuses(START + named("collections.OrderedDict") + NONE + REDUCE + STOP, "arguments are no tuple")


def test_arguments_of_allowed_calls():
    rows = [
        ("collections.defaultdict", named("collections.defaultdict"), "built-in types as its factory"),
        ("collections.defaultdict", text("list"), "built-in types as its factory"),
        ("collections.Counter", text("aaa"), "cannot take"),
        ("builtins.range", text("a"), "cannot take"),
        ("builtins.bytearray", op("BININT") + struct.pack("<i", 2**30), "cannot take"),
        ("fastgrad.tensor.Size", text("ab"), "tuple of integers"),
        ("fastgrad.dtypes.of_name", text("float3"), "name of a dtype"),
        ("fastgrad.functions.device.device", text("cpu"), "cannot take"),
        ("fastgrad.functions.creation.device", text("cpu"), "cannot take"),
    ]
    for name, argument, message in rows:
        refuses(START + named(name) + argument + op("TUPLE1") + REDUCE + STOP, message)


# --- state and items -------------------------------------------------------------------------------------------


def test_the_state_of_classes_and_functions_stays_as_it_is():
    for name in (
        "collections.OrderedDict",
        "fastgrad.nn.parameter.Parameter",
        "fastgrad.functions.storage.rebuild",
    ):
        refuses(START + named(name) + DICT + BUILD + STOP, "sets the state of .* not allowed")
        refuses(
            START + named(name) + NONE + DICT + op("TUPLE2") + BUILD + STOP,
            "sets the state of .* not allowed",
        )
    assert not hasattr(Parameter, "a")
    assert not hasattr(storage.rebuild, "a")


@pytest.mark.parametrize("obj", [{"a": 1}, [1], fg.float32, fg.Size([1])], ids=lambda o: type(o).__name__)
def test_the_state_of_instances(obj: Any):
    data, storages = parts_of(obj)
    refuses(data[:-1] + DICT + BUILD + STOP, "sets the state of", storages)


class Restored:
    """Pickles as a tensor that gets any state."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return (*storage.reduced(fg.ones(2)), self.state)


@pytest.mark.parametrize(
    "state", [[1], {1: 2}, {"_backward_hooks": 5}, {"_post_accumulate_grad_hooks": {}}], ids=str
)
def test_the_state_of_a_tensor(state: Any):
    data, storages = parts_of(Restored(state))
    refuses(data, "attribute", storages)


def test_attributes_in_older_files():
    assert fg.load(archive_of(*parts_of(Layout(attributes={"tag": 1})))).tag == 1


def test_the_state_of_an_ordered_dict():
    ordered = START + named("collections.OrderedDict") + EMPTY_TUPLE + REDUCE
    loaded = fg.load(archive_of(ordered + DICT + BUILD + STOP))
    assert type(loaded) is OrderedDict
    assert loaded.a is None
    refuses(ordered + op("EMPTY_DICT") + NONE + NONE + op("SETITEM") + BUILD + STOP, "no dict of texts")
    refuses(ordered + NONE + BUILD + STOP, "no dict of texts")


def test_items_of_what_holds_none():
    key = text("a") + NONE + op("SETITEM") + STOP
    refuses(START + named("fastgrad.nn.parameter.Parameter") + key, "puts items into")
    refuses(START + op("EMPTY_LIST") + key, "puts items into")
    refuses(START + op("EMPTY_DICT") + NONE + op("APPEND") + STOP, "puts items into")
    refuses(START + op("EMPTY_LIST") + op("MARK") + NONE + op("ADDITEMS") + STOP, "puts items into")


def nested(depth: int, width: int = 1) -> bytes:
    step = op("DUP") * (width - 1) + (op("TUPLE1") if width == 1 else op("TUPLE2"))
    return EMPTY_TUPLE + step * depth


@pytest.mark.parametrize(("depth", "width"), [(100000, 1), (100, 2)])
def test_keys_that_take_for_ever_to_hash(depth: int, width: int):
    """A tuple in a tuple, 100,000 deep, would run out of stack; one of pairs of the same, 100 deep, out of time."""
    key = nested(depth, width)
    refuses(START + op("EMPTY_DICT") + key + NONE + op("SETITEM") + STOP, "key of too many parts")
    refuses(START + op("EMPTY_SET") + op("MARK") + key + op("ADDITEMS") + STOP, "key of too many parts")
    refuses(START + op("MARK") + key + op("FROZENSET") + STOP, "key of too many parts")


def test_deep_nesting_alone_is_no_harm():
    assert type(fg.load(archive_of(START + nested(100000) + STOP))) is tuple


def test_keys_without_a_hash():
    refuses(START + op("EMPTY_DICT") + op("EMPTY_LIST") + NONE + op("SETITEM") + STOP, "is no key")


@pytest.mark.parametrize(
    "data",
    [
        b"", STOP, START, START + NONE, START + op("TUPLE2") + STOP, START + NONE + op("TUPLE2") + STOP,
        START + op("BINGET") + b"\x05" + STOP, START + op("POP") + STOP, START + op("APPENDS") + STOP,
        START + NONE + NONE + STOP, START + REDUCE + STOP, START + BUILD + STOP, START + op("MEMOIZE") + STOP,
        START + op("BINUNICODE") + b"\xff\xff\xff\xff" + b"a", START + b"\xff" + STOP, b"cos\nsystem\n",
        START + op("EMPTY_DICT") + op("MARK") + NONE + op("SETITEMS") + STOP, START + op("STACK_GLOBAL") + STOP,
        START + NONE + NONE + op("STACK_GLOBAL") + STOP, START + op("BINPERSID") + STOP,
        START + NONE + op("BINPERSID") + STOP, START + op("INST") + b"os\nsystem\n" + STOP,
        START + op("EXT1") + b"\x01" + STOP, START + op("OBJ") + STOP, START + op("NEXT_BUFFER") + STOP,
    ],
)  # fmt: skip
def test_streams_that_are_none(data: bytes):
    refuses(data)


# --- what users allow ------------------------------------------------------------------------------------------


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x: int) -> None:
        self.x = x


class Plain:
    def __init__(self) -> None:
        self.a = 1


class Listing(list):
    pass


def test_allowed_classes():
    point, listing = Point(3), Listing([1, 2])
    listing.tag = "t"
    with fg.serialization.safe_globals([Point, Plain, (Listing, f"{HERE}Listing"), run]):
        assert fg.load(archive_of(pickle.dumps(point, 4))).x == 3
        assert fg.load(archive_of(pickle.dumps(Plain(), 4))).a == 1
        back = fg.load(archive_of(pickle.dumps(listing, 4)))
        assert (type(back), back, back.tag) == (Listing, [1, 2], "t")
        assert fg.load(archive_of(pickle.dumps(Reduces(run), 4))) == "ran"
    refuses(pickle.dumps(point, 4), "Point was not an allowed global")


def test_the_list_of_what_is_allowed():
    serialization = fg.serialization
    serialization.add_safe_globals([Point])
    with serialization.safe_globals([Plain]):
        assert serialization.get_safe_globals() == [Point, Plain]
    assert serialization.get_safe_globals() == [Point]
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    with pytest.raises(TypeError, match="expected classes, functions, or pairs"):
        serialization.add_safe_globals([5])


def test_weights_only_false_runs_what_the_file_asks_for():
    RAN.clear()
    assert fg.load(archive_of(pickle.dumps(Reduces(run), 4)), weights_only=False) == "ran"
    assert RAN == ["run"]


# --- layouts ---------------------------------------------------------------------------------------------------


class Layout:
    """Pickles as a tensor over a storage of six float32 with any layout."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __reduce__(self) -> Any:
        usual = {
            "kind": fg.Tensor, "storage": storage.Storage.of(fg.zeros(6)), "offset": 0, "sizes": (2, 3),
            "strides": (3, 1), "requires_grad": False, "attributes": {},
        }  # fmt: skip
        return storage.rebuild, tuple((usual | self.changes).values())


LAYOUTS = {
    "too long": {"sizes": (3, 3)},
    "too far": {"offset": 1},
    "negative size": {"sizes": (-1, 3)},
    "negative stride": {"strides": (-3, 1)},
    "negative offset": {"offset": -1},
    "wide stride": {"strides": (2**62, 1)},
    "huge stride": {"sizes": (2, 1), "strides": (2**64, 1)},
    "overflow": {"sizes": (2**40, 2**40), "strides": (0, 0)},
    "overflow of bytes": {"sizes": (2**62,), "strides": (0,)},
    "stride of one element": {"sizes": (1, 1), "strides": (2**63, 1)},
    "many dimensions": {"sizes": (1,) * 100, "strides": (1,) * 100},
    "two lengths": {"sizes": (2,)},
    "lists": {"sizes": [2, 3]},
    "floats": {"sizes": (2.0, 3)},
    "bools": {"sizes": (True, True)},
    "no tuple": {"strides": None},
    "offset": {"offset": None},
    "flag": {"requires_grad": 1},
    "class": {"kind": dict},
    "no class": {"kind": 5},
    "no storage": {"storage": 5},
    "no dict": {"attributes": [1]},
    "no name": {"attributes": {1: 2}},
    "hooks": {"attributes": {"_backward_hooks": 5}},
    "post hooks": {"attributes": {"_post_accumulate_grad_hooks": {}}},
    "grad of integers": {"storage": storage.Storage.of(fg.zeros(6, dtype=fg.int64)), "requires_grad": True},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_that_leave_the_memory_or_make_no_sense(name: str):
    data, storages = parts_of(Layout(**LAYOUTS[name]))
    refuses(data, "", storages)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        fg.load(archive_of(data, storages), weights_only=False)


def test_layouts_that_fit():
    for changes in (
        {},
        {"sizes": (5, 2), "strides": (1, 1)},
        {"sizes": (9,), "strides": (0,)},
        {"sizes": (0,), "strides": (9,)},
    ):
        data, storages = parts_of(Layout(**changes))
        assert fg.load(archive_of(data, storages)).sum().item() == 0


@pytest.mark.parametrize("size", [0, 23, 25, 1000])
def test_storages_of_another_size(size: int):
    data, _ = parts_of(fg.zeros(6))
    with pytest.raises(RuntimeError, match=rf"corrupted.*has {size} bytes instead of 6 elements of 4"):
        fg.load(archive_of(data, {"0": b"\0" * size}))
    with pytest.raises(RuntimeError, match=r"corrupted.*no part 'data/0'"):
        fg.load(archive_of(data))


def persistent(*parts: Any) -> bytes:
    return pickle.dumps(parts, 4)[:-1] + op("BINPERSID") + STOP


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("storage", "float32", "0", "cpu"), "none of a storage"), (("other", "float32", "0", "cpu", 1), "'other'"),
        (("storage", "int4", "0", "cpu", 2), "'int4', which is not supported"),
        (("storage", "x", "0", "cpu", 2), "not supported"),
        (("storage", "float32", "0", "cpu", True), "none of a storage"),
    ],
)  # fmt: skip
def test_persistent_ids(parts: tuple, message: str):
    refuses(persistent(*parts), message, {"0": b"\0" * 4})


def test_one_storage_in_two_dtypes():
    first, second = ("storage", "float32", "0", "cpu", 2), ("storage", "float64", "0", "cpu", 1)
    data = pickle.dumps(first, 4)[:-1] + op("BINPERSID") + pickle.dumps(second, 4)[2:-1] + op("BINPERSID")
    refuses(data + op("TUPLE2") + STOP, "two descriptions of storage '0' differ", {"0": b"\0" * 8})


# --- damaged archives ------------------------------------------------------------------------------------------


def test_other_versions():
    with pytest.raises(RuntimeError, match=r"version '2' of the format.*update"):
        fg.load(archive_of(pickle.dumps(1), version="2"))


def test_parts_that_are_compressed():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("version", "1")
        archive.writestr("data.pkl", bytes(10**6))
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"corrupted: its part.*compressed|larger than the whole"):
        fg.load(file)


def same(a: Any, b: Any) -> bool:
    return pickle.dumps(a) == pickle.dumps(b)


def sample() -> Any:
    w = fg.arange(6.0)
    return {
        "w": w,
        "view": w[2:].view(2, 2).t(),
        "step": 3,
        "names": ["a", (1, 2.5)],
        "grad": fg.ones(2, requires_grad=True),
    }


ALLOWED = (RuntimeError, pickle.UnpicklingError, EOFError)


def test_truncated_files():
    file = io.BytesIO()
    fg.save(sample(), file)
    whole = file.getvalue()
    for n in range(len(whole)):
        with pytest.raises(ALLOWED):
            fg.load(io.BytesIO(whole[:n]))


def test_flipped_bits():
    """Each gives an error, or what was saved: some bits of a zip archive, such as times, mean nothing here."""
    file = io.BytesIO()
    fg.save(sample(), file)
    whole, expected = file.getvalue(), sample()
    refused = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        try:
            assert same(fg.load(io.BytesIO(bytes(changed))), expected), place
        except ALLOWED:
            refused += 1
    assert refused > len(whole) / 2


@pytest.mark.parametrize("seed", range(6))
def test_changed_pickles_with_checksums_that_fit(seed: int):
    """What comes out may be nonsense, but it is made of allowed types and lies within its memory."""
    data, storages = parts_of(sample())
    rng = random.Random(seed)
    loaded = 0
    for _ in range(1500):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            kind, place = rng.randrange(3), rng.randrange(2, len(changed) - 1)
            if kind == 0:
                changed[place] = rng.randrange(256)
            elif kind == 1:
                changed.insert(place, rng.choice(pickletools.opcodes).code.encode("latin1")[0])
            else:
                del changed[place]
        try:
            found = fg.load(archive_of(bytes(changed), storages))
        except ALLOWED:
            continue
        loaded += 1
        visit(found, set())
    assert loaded


def visit(obj: Any, seen: set[int]) -> None:
    """Reads every element of every tensor."""
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, fg.Tensor):
        if obj.numel() < 10**6:
            assert np.isfinite(obj.detach().double().numpy()).all() or obj.dtype.is_floating_point
    elif isinstance(obj, dict):
        for pair in obj.items():
            visit(pair, seen)
    elif isinstance(obj, (list, tuple, set, frozenset)):
        for item in obj:
            visit(item, seen)
