"""Versions that are compared with texts, tuples and each other."""

from __future__ import annotations

import operator

import pytest

from fastgrad.as_torch.versions import VERSION, TorchVersion

OPERATORS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
OTHERS = (
    "1.0", "2", "2.1", "2.1.0", "2.1.1", "2.1.0rc1", "2.1.0a0", "2.1.0.dev20230101", "10.0", (2, 1), (2, 1, 0), (2,),
    [2, 1], (3, 0, 0),
)  # fmt: skip


@pytest.mark.parametrize("other", OTHERS, ids=str)
@pytest.mark.parametrize("own", ["2.1.0", "2.1.0rc1", "2.1.0a0", "2.10"])
def test_comparisons(own, other):
    packaging = pytest.importorskip("packaging.version")
    text = other if isinstance(other, str) else ".".join(map(str, other))
    for compare in OPERATORS:
        expected = compare(packaging.Version(own), packaging.Version(text))
        assert compare(TorchVersion(own), other) is expected, compare
        assert compare(TorchVersion(own), packaging.Version(text)) is expected, compare


def test_versions_are_texts():
    assert isinstance(VERSION, str)
    assert VERSION.split("+")[0] == "2.13.0"
    assert "2.0" < VERSION < "3"
    assert max("2.9", VERSION) is VERSION
    assert VERSION != "no version"
    assert VERSION != 3
    assert {VERSION: 1}[str(VERSION)] == 1
    assert (VERSION < "parrot") is str.__lt__(VERSION, "parrot")  # as PyTorch has it
    for wrong in (None, 3, object()):
        with pytest.raises(TypeError):
            _ = wrong > VERSION


@pytest.mark.parity
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_comparisons_are_those_of_pytorch(other):
    from torch.torch_version import TorchVersion as Theirs

    for compare in OPERATORS[:-1]:  # to theirs, 2.1.0 is equal to 2.1 and unequal, too
        assert compare(TorchVersion("2.1.0"), other) == compare(Theirs("2.1.0"), other)
