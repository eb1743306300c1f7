"""`fastgrad.device`: a name that cannot be half made, changed or derived from."""

from __future__ import annotations

import copy
import pickle

import pytest

import fastgrad as fg


def test_a_device_is_complete_from_the_start():
    with pytest.raises(TypeError):
        fg.device.__new__(fg.device)
    with pytest.raises(TypeError):
        fg.device()
    where = fg.device.__new__(fg.device, "cpu:1")
    assert (where.type, where.index) == ("cpu", 1)
    assert fg.zeros(2, device=where).device == fg.device("cpu")


def test_nothing_derives_from_it():
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Own", (fg.device,), {})


def test_it_does_not_change():
    where = fg.device("cpu")
    for name in ("type", "index", "other"):
        with pytest.raises(AttributeError):
            setattr(where, name, "cpu")
        with pytest.raises(AttributeError):
            delattr(where, name)
    assert where == fg.device("cpu")


def test_copies_and_files_keep_it():
    where = fg.device("cpu", 3)
    assert copy.deepcopy(where) == copy.copy(where) == pickle.loads(pickle.dumps(where)) == where
    assert fg.device(where) == where
