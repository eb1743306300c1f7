"""Files in PyTorch's formats that somebody made or damaged: an error, nothing run, nothing large allocated."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import pickletools
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.serialization import torch_legacy

ALLOWED = (RuntimeError, pickle.UnpicklingError, EOFError)
FIRST = b"\x80\x02"


def op(name: str) -> bytes:
    return next(o.code for o in pickletools.opcodes if o.name == name).encode("latin1")


def text(value: str) -> bytes:
    raw = value.encode()
    return op("BINUNICODE") + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    raw = value.to_bytes(16, "little", signed=True)
    return op("LONG1") + bytes([len(raw)]) + raw


def named(path: str) -> bytes:
    module, _, name = path.rpartition(".")
    return op("GLOBAL") + f"{module}\n{name}\n".encode()


def of(*items: bytes) -> bytes:
    return op("MARK") + b"".join(items) + op("TUPLE")


def numbers(*values: int) -> bytes:
    return of(*map(number, values))


def call(name: str, *items: bytes) -> bytes:
    return named(name) + of(*items) + op("REDUCE")


def storage(key: str = "0", count: int = 6, kind: str = "torch.FloatStorage", *more: bytes) -> bytes:
    return of(text("storage"), named(kind), text(key), text("cpu"), number(count), *more) + op("BINPERSID")


NONE, FALSE, STOP = op("NONE"), op("NEWFALSE"), op("STOP")
HOOKS = call("collections.OrderedDict")
OLDER = storage("0", 6, "torch.FloatStorage", NONE)


def tensor(
    held: bytes | None = None,
    offset: int = 0,
    sizes: bytes | None = None,
    strides: bytes | None = None,
    rest: bytes = FALSE + HOOKS,
) -> bytes:
    parts = (
        storage() if held is None else held,
        number(offset),
        numbers(2, 3) if sizes is None else sizes,
        numbers(3, 1) if strides is None else strides,
        rest,
    )
    return call("torch._utils._rebuild_tensor_v2", *parts)


def archive_of(body: bytes, storages: dict[str, bytes] | None = None, **entries: str) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", FIRST + body + STOP)
        for name, content in entries.items():
            archive.writestr(f"x/{name}", content)
        for key, data in ({"0": struct.pack("<6f", *range(6))} if storages is None else storages).items():
            archive.writestr(f"x/data/{key}", data)
    file.seek(0)
    return file


def legacy_of(
    body: bytes, keys: list[str] | None = None, data: bytes | None = None, **machine: Any
) -> io.BytesIO:
    named_keys = ["0"] if keys is None else keys
    return io.BytesIO(
        b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True} | machine))
        + FIRST + body + STOP + pickle.dumps(named_keys, 2)
        + (struct.pack("<q6f", 6, *range(6)) if data is None else data)
    )  # fmt: skip


def refuses(file: io.BytesIO, match: str) -> None:
    """The file is an error that says so, and no memory to speak of is taken on the way."""
    tracemalloc.start()
    before = fg.debug.live()
    try:
        with pytest.raises(ALLOWED, match=f"(?s){match}"):
            fg.load(file)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    if fg.debug.live() != before:  # a traceback may still hold what there was
        gc.collect()
    assert fg.debug.live() == before


def test_the_helpers_make_files_that_are_read():
    for file in (archive_of(tensor()), legacy_of(tensor(OLDER))):
        assert fg.load(file).tolist() == [[0, 1, 2], [3, 4, 5]]


# --- names ----------------------------------------------------------------------------------------------

NAMES = [
    "os.system", "posix.system", "builtins.eval", "__builtin__.eval", "builtins.getattr", "builtins.open", "nt.system",
    "subprocess.Popen", "torch.load", "torch._utils._rebuild_qtensor", "torch.nn.modules.linear.Linear",
    "fastgrad.load", "fastgrad.functions.storage.rebuild", "codecs.decode", "builtins.list", "numpy.fromfile",
    "torch._utils._import_dotted_name", "torch.FloatStorage.from_file", "collections.OrderedDict.fromkeys",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_not_on_the_list(name: str):
    for file in (archive_of(call(name, text("true"))), legacy_of(call(name, text("true")), [])):
        refuses(file, f"Unsupported global: GLOBAL {name} ")


@pytest.mark.parametrize(
    "name", ["torch.Tensor", "torch.FloatTensor", "torch.nn.parameter.Parameter", "torch.float32"]
)
def test_what_may_be_named_may_not_all_be_called(name: str):
    refuses(archive_of(call(name, text("a"))), "which is not allowed")
    refuses(archive_of(named(name) + of() + op("NEWOBJ")), "which is not allowed")
    refuses(
        archive_of(named(name) + op("EMPTY_DICT") + op("BUILD")), "sets the state of|attributes|not allowed"
    )


ARGUMENTS = {
    "codec": call("_codecs.encode", text("a"), text("rot13")),
    "encoded number": call("_codecs.encode", number(3), text("latin1")),
    "huge bytearray": call("__builtin__.bytearray", number(2**40)),
    "bytes": call("__builtin__.bytes", number(2**40)),
    "set": call("__builtin__.set", text("aaa")),
    "set of lists": call("__builtin__.set", op("EMPTY_LIST") + op("EMPTY_LIST") + op("APPEND")),
    "counter": call("collections.Counter", text("aaa")),
    "pairs": call("collections.OrderedDict", op("EMPTY_LIST") + number(1) + op("APPEND")),
    "pairs of lists": call(
        "collections.OrderedDict", op("EMPTY_LIST") + of(op("EMPTY_LIST"), NONE) + op("APPEND")
    ),
    "size": call("torch.Size", of(text("a"))),
    "device": call("torch.device", text("cpu"), text("1")),
    "no device": call("torch.device", text("nowhere")),
    "layout": call("torch.serialization._get_layout", text("torch.sparse_coo")),
    "parameter": call("torch._utils._rebuild_parameter", number(1), FALSE, HOOKS),
    "parameter's flag": call("torch._utils._rebuild_parameter", tensor(), number(1), HOOKS),
    "type": call(
        "torch._tensor._rebuild_from_type_v2",
        named("collections.Counter"), named("torch.Tensor"), of(), NONE,
    ),
    "function": call("torch._tensor._rebuild_from_type_v2", number(1), named("torch.Tensor"), of(), NONE),
    "class": call(
        "torch._tensor._rebuild_from_type_v2",
        named("torch._utils._rebuild_tensor_v2"), named("__builtin__.set"), of(), NONE,
    ),
    "arguments": call("torch._utils._rebuild_tensor_v2"),
    "v3": call(
        "torch._utils._rebuild_tensor_v3",
        storage(), number(0), numbers(1), numbers(1), FALSE, HOOKS, named("torch.uint16"),
    ),
    "nesting": call(
        "torch._tensor._rebuild_from_type_v2",
        named("torch._tensor._rebuild_from_type_v2"), named("torch.Tensor"),
        of(named("torch._tensor._rebuild_from_type_v2"), named("torch.Tensor"), of(), NONE), NONE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_allowed_calls(name: str):
    refuses(
        archive_of(ARGUMENTS[name]), r"malformed or hostile pickle at opcode REDUCE, byte \d+|not allowed"
    )


def test_copies_of_one_thing():
    """A text of 100,000 characters, and a thousand calls that each make bytes of it."""
    for what, function in ((text("a" * 100000), "_codecs.encode"), (op("EMPTY_LIST"), "__builtin__.set")):
        if function == "__builtin__.set":
            what += op("MARK") + number(1) * 5000 + op("APPENDS")
        again = op("BINGET") + b"\0" + (op("BINGET") + b"\1" if function == "_codecs.encode" else b"")
        body = what + op("BINPUT") + b"\0" + op("POP") + text("latin1") + op("BINPUT") + b"\1" + op("POP")
        body += (named(function) + op("MARK") + again + op("TUPLE") + op("REDUCE") + op("POP")) * 1000 + NONE
        refuses(archive_of(body), "what constructors copy is larger than the pickle")


# --- layouts --------------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[..., bytes]] = {
    "too long": lambda s: tensor(s, sizes=numbers(3, 3)),
    "too far": lambda s: tensor(s, offset=1),
    "negative offset": lambda s: tensor(s, offset=-1),
    "negative stride": lambda s: tensor(s, strides=numbers(-3, 1)),
    "negative size": lambda s: tensor(s, sizes=numbers(-2, 3)),
    "wide stride": lambda s: tensor(s, strides=numbers(2**62, 1)),
    "overflow": lambda s: tensor(s, sizes=numbers(2**40, 2**40), strides=numbers(0, 0)),
    "many dimensions": lambda s: tensor(s, sizes=numbers(*[1] * 200), strides=numbers(*[1] * 200)),
    "two lengths": lambda s: tensor(s, strides=numbers(1)),
    "no tuple": lambda s: tensor(s, sizes=text("ab")),
    "no storage": lambda s: tensor(number(5)),
    "hooks": lambda s: tensor(s, rest=FALSE + number(5)),
    "metadata": lambda s: tensor(
        s, rest=FALSE + HOOKS + op("EMPTY_DICT") + text("conj") + op("NEWTRUE") + op("SETITEM")
    ),
    "grad of integers": lambda s: tensor(
        s.replace(b"FloatStorage", b"IntStorage"), rest=op("NEWTRUE") + HOOKS
    ),
    "hooks among attributes": lambda s: call(
        "torch._utils._rebuild_parameter_with_state",
        tensor(s), FALSE, HOOKS, op("EMPTY_DICT") + text("_backward_hooks") + number(5) + op("SETITEM"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_that_leave_the_memory_or_make_no_sense(name: str):
    refuses(archive_of(LAYOUTS[name](storage())), "malformed or hostile pickle")
    refuses(legacy_of(LAYOUTS[name](OLDER)), "malformed or hostile pickle")


@pytest.mark.parametrize(
    ("held", "match"),
    [
        (storage(count=2**60), "corrupted: storage 'x/data/0' has 24 bytes instead of"),
        (storage(count=5), "instead of 5"),
        (storage(count=-6), "storage '0' has -6 elements"), (storage("1"), "no part 'x/data/1'"),
        (storage("../../etc/passwd"), "no part 'x/data/../../etc/passwd'"), (storage("/etc/passwd"), "no part"),
        (storage(kind="torch.float32"), "none of a storage of a dtype"), (storage(kind="torch.QInt8Storage"), "QInt8"),
        (of(text("module"), NONE) + op("BINPERSID"), "persistent id"), (NONE + op("BINPERSID"), "persistent id"),
        (tensor() + op("POP") + storage(count=3, kind="torch.DoubleStorage"), "two descriptions of storage '0' differ"),
    ],
)  # fmt: skip
def test_storages_that_lie(held: bytes, match: str):
    refuses(archive_of(held), match)


# --- archives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"version": "99"}, "version '99'"), ({"version": "a"}, "version 'a'"), ({"byteorder": "middle"}, "byte order"),
        ({"constants.pkl": ""}, "TorchScript"),
    ],
)  # fmt: skip
def test_other_archives(entries: dict[str, str], match: str):
    refuses(archive_of(tensor(), **entries), match)


def test_bytes_in_the_other_order():
    data = {"0": struct.pack(">6f", *range(6))}
    assert fg.load(archive_of(tensor(), data, byteorder="big")).tolist() == [[0, 1, 2], [3, 4, 5]]
    held = OLDER
    file = legacy_of(tensor(held), data=struct.pack("<q", 6) + data["0"], little_endian=False)
    assert fg.load(file).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_bombs_and_overlapping_parts(tmp_path: Path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(10**7))
    refuses(io.BytesIO(file.getvalue()), "larger than the whole|compressed")
    whole = archive_of(of(tensor(), tensor(storage("1"))), {"0": bytes(24), "1": bytes(24)}).getvalue()
    directory = whole.index(b"PK\x01\x02")
    last = whole.rindex(b"PK\x01\x02")
    at = whole.index(b"x/data/0") - 30  # the second storage says that it lies where the first one does
    changed = whole[: last + 42] + struct.pack("<I", at) + whole[last + 46 :]
    assert directory < last
    refuses(io.BytesIO(changed), "overlap")
    path = tmp_path / "a.pt"
    grown = bytearray(whole)
    struct.pack_into("<H", grown, at + 28, 60)  # a header that says that its part begins in the next one
    path.write_bytes(bytes(grown))
    with pytest.raises(RuntimeError, match="overlaps the next one"):
        fg.load(path, mmap=True)


def test_two_parts_of_one_name():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", FIRST + NONE + STOP)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x/data.pkl", FIRST + NONE + STOP)
    refuses(io.BytesIO(file.getvalue()), "two of its parts have one name")


def test_messages_name_the_file(tmp_path: Path):
    path = tmp_path / "bad.pt"
    path.write_bytes(archive_of(call("os.system", text("true"))).getvalue())
    with pytest.raises(pickle.UnpicklingError, match=r"bad\.pt.*GLOBAL os.system"):
        fg.load(path)
    path.write_bytes(archive_of(tensor()).getvalue()[:-30])
    for mmap in (False, True):
        with pytest.raises(RuntimeError, match=r"bad\.pt is corrupted"):
            fg.load(path, mmap=mmap)
    path.write_bytes(b"")
    with pytest.raises(EOFError, match=r"bad\.pt is empty"):
        fg.load(path)


# --- the older format -----------------------------------------------------------------------------------

VIEW = of(text("1"), number(0), number(2))


@pytest.mark.parametrize(
    ("file", "match"),
    [
        (legacy_of(tensor(storage("0", 2**50, "torch.FloatStorage", NONE))), "more than the file has"),
        (legacy_of(tensor(storage("0", 6, "torch.FloatStorage", VIEW))), "view of another one"),
        (legacy_of(tensor()), "none of a storage"),
        (legacy_of(NONE, ["0"]), "keys of the storages"), (legacy_of(NONE, [1]), "keys of the storages"),
        (legacy_of(tensor(OLDER), data=struct.pack("<q6f", 7, *[0] * 6)), "7 elem"),
        (legacy_of(tensor(OLDER), data=struct.pack("<q", 6)), "ends early"),
        (io.BytesIO(torch_legacy.MAGIC + b"." + pickle.dumps(1000, 2)), "EOF|corrupted|version|malformed"),
        (legacy_of(op("BINBYTES8") + struct.pack("<Q", 2**50)), "announced"),
        (legacy_of(op("BINUNICODE") + b"\xff\xff\xff\xff"), "announced"),
    ],
)  # fmt: skip
def test_older_files_that_lie(file: io.BytesIO, match: str):
    refuses(file, match)


def test_files_of_python_2():
    """Texts are bytes there, and the items of an OrderedDict stand in the call."""
    short = op("SHORT_BINSTRING")
    pairs = op("EMPTY_LIST") + op("MARK")
    pairs += op("EMPTY_LIST") + op("MARK") + short + b"\1w" + tensor(OLDER)
    pairs += op("APPENDS") + op("APPENDS")
    found = fg.load(legacy_of(call("collections.OrderedDict", pairs)))
    assert list(found) == ["w"]
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]]


# --- damage ---------------------------------------------------------------------------------------------


def sample() -> bytes:
    w = fg.arange(6.0)
    file = io.BytesIO()
    fg.save(
        {"w": w, "v": w[2:].view(2, 2).t(), "p": fg.nn.Parameter(fg.ones(2)), "n": [1, "a"]},
        file,
        format="torch",
    )
    return file.getvalue()


def test_truncated_files():
    older = legacy_of(tensor(OLDER)).getvalue()
    for whole in (sample(), older):
        for n in range(len(whole)):
            with pytest.raises(ALLOWED):
                fg.load(io.BytesIO(whole[:n]))


@pytest.mark.parametrize("older", [False, True])
def test_changed_pickles(older: bool):
    """Whatever is read is made of allowed types and lies within its memory; all else is an error."""
    with zipfile.ZipFile(io.BytesIO(sample())) as archive:
        body = archive.read("archive/data.pkl")[2:-1]
        held = {n.rpartition("/")[2]: archive.read(n) for n in archive.namelist() if "/data/" in n}
    if older:
        body = tensor(OLDER)
    rng = random.Random(int(older))
    for _ in range(1500):
        changed = bytearray(body)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(changed) - 1)
            changed[place] = rng.choice(
                [rng.randrange(256), rng.choice(pickletools.opcodes).code.encode("latin1")[0]]
            )
        try:
            found = fg.load(legacy_of(bytes(changed)) if older else archive_of(bytes(changed), held))
        except ALLOWED:
            continue
        repr(found)


def test_cycles_are_read_as_they_were_written():
    body = op("EMPTY_LIST") + op("BINPUT") + b"\0" + op("BINGET") + b"\0" + op("APPEND")
    found = fg.load(archive_of(body))
    assert found[0] is found
    key = of(op("BINGET") + b"\0")
    refuses(archive_of(body + op("POP") + op("EMPTY_DICT") + key + NONE + op("SETITEM")), "is no key")


def test_a_safetensors_header_that_lies(tmp_path: Path):
    pytest.importorskip("safetensors")
    path = tmp_path / "a.safetensors"
    for header in (
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}},
        {"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 4]}},
        {k: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for k in "ab"},
    ):
        raw = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(4))
        for mmap in (False, True):
            with pytest.raises(RuntimeError, match="no safetensors file"):
                fg.load(path, mmap=mmap)
    path.write_bytes(struct.pack("<Q", 2**60) + os.urandom(16))
    with pytest.raises(RuntimeError, match="no safetensors file"):
        fg.load(path)
