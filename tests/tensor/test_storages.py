"""Memories of tensors as objects, typed and as bytes, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest

import fastgrad as fg

DTYPES = ["float32", "float64", "int64", "uint8", "bool", "complex64"]


def memories(lib: Any, dtype: str = "float32", n: int = 6) -> tuple[Any, Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's typed ones are on their way out
        x = lib.arange(n).to(getattr(lib, dtype))
        return x, x.storage(), x.untyped_storage()


def facts(memory: Any) -> list[Any]:
    sizes = [memory.size(), len(memory), memory.nbytes(), memory.element_size()]
    return [
        *sizes,
        memory.is_cuda,
        memory.get_device(),
        str(memory.device),
        memory.is_shared(),
        memory.is_pinned(),
    ]


def said(memory: Any) -> str:
    return repr(memory).replace("torch.", "").replace("fastgrad.", "")


@pytest.mark.parity
@pytest.mark.parametrize("n", [0, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_they_tell(dtype: str, n: int) -> None:
    torch = pytest.importorskip("torch")
    told = []
    for lib in (fg, torch):
        x, typed, raw = memories(lib, dtype, n)
        assert typed.data_ptr() == raw.data_ptr() == x.data_ptr()
        assert raw is x.untyped_storage() or lib is torch
        assert raw == x.untyped_storage() == x[n // 2 :].untyped_storage()
        told.append([[*facts(m), m.tolist(), list(m), said(m), said(m.clone())] for m in (typed, raw)])
    assert told[0] == told[1]


CHANGES = {
    "fill": lambda lib, typed, raw: typed.fill_(2),
    "fill float": lambda lib, typed, raw: typed.fill_(1.5),
    "fill bytes": lambda lib, typed, raw: raw.fill_(3),
    "fill bytes beyond": lambda lib, typed, raw: raw.fill_(300),
    "fill bytes negative": lambda lib, typed, raw: raw.fill_(-1),
    "fill text": lambda lib, typed, raw: typed.fill_("a"),
    "fill bytes float": lambda lib, typed, raw: raw.fill_(1.5),
    "fill bytes text": lambda lib, typed, raw: raw.fill_("a"),
    "fill nothing": lambda lib, typed, raw: raw.fill_(),
    "copy": lambda lib, typed, raw: typed.copy_(lib.ones(6).storage()),
    "copy bytes": lambda lib, typed, raw: raw.copy_(lib.ones(3, dtype=lib.float64).untyped_storage()),
    "copy bytes over typed": lambda lib, typed, raw: typed.copy_(lib.ones(6).untyped_storage()),
    "copy typed over bytes": lambda lib, typed, raw: raw.copy_(lib.ones(6).storage(), non_blocking=True),
    "copy of another size": lambda lib, typed, raw: typed.copy_(lib.ones(3).storage()),
    "copy bytes of another size": lambda lib, typed, raw: raw.copy_(lib.ones(3).untyped_storage()),
    "copy a number": lambda lib, typed, raw: raw.copy_(1),
    "copy nothing": lambda lib, typed, raw: typed.copy_(),
    "itself": lambda lib, typed, raw: raw.copy_(raw),
    "element": lambda lib, typed, raw: typed.__setitem__(2, 9),
    "byte": lambda lib, typed, raw: raw.__setitem__(3, 300),
    "last": lambda lib, typed, raw: typed.__setitem__(-1, 9),
    "beyond": lambda lib, typed, raw: typed[9],
    "byte beyond": lambda lib, typed, raw: raw[24],
    "text": lambda lib, typed, raw: raw["a"],
    "float": lambda lib, typed, raw: raw[1.5],
    "slice of bytes": lambda lib, typed, raw: raw[1:3].fill_(7),
    "clone is apart": lambda lib, typed, raw: typed.clone().fill_(7),
    "clone of bytes is apart": lambda lib, typed, raw: raw.clone().fill_(7),
    "asked for a device": lambda lib, typed, raw: raw.get_device(1),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(CHANGES))
def test_changes_are_seen_by_tensors(case: str) -> None:
    torch = pytest.importorskip("torch")
    told = []
    for lib in (fg, torch):
        x, typed, raw = memories(lib)
        raised = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                CHANGES[case](lib, typed, raw)
            except Exception as error:
                raised = type(error)
        told.append([repr(x.tolist()), raised])
    assert told[0] == told[1]


def test_changes_give_themselves_and_count_as_versions() -> None:
    x, typed, raw = memories(fg)
    version = x._version
    assert typed.fill_(1) is typed
    assert raw.fill_(0) is raw
    assert raw.copy_(raw.clone()) is raw
    assert x._version > version
    w = fg.ones(6, requires_grad=True)
    y = w * x
    typed.fill_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_copies_and_pickles_hold_the_same() -> None:
    for memory in memories(fg)[1:]:
        for again in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
            assert repr(again) == repr(memory)
            assert again.data_ptr() != memory.data_ptr()


def test_a_memory_without_content() -> None:
    assert repr(fg.ones(2, device="meta").storage()).startswith("...\n[")
