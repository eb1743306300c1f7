"""What is said about names that PyTorch has and fastgrad does not."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys

import pytest

import fastgrad as fg
from fastgrad.functions import public
from fastgrad.module_names import AbsentNameError, nearest, pytorch_names

pytestmark = pytest.mark.static

MODULES = (
    fg, fg.amp, fg.autograd, fg.cuda, fg.linalg, fg.nn, fg.nn.functional, fg.nn.init, fg.nn.utils, fg.optim,
    fg.optim.lr_scheduler, fg.profiler, fg.special, fg.utils, fg.utils.data,
)  # fmt: skip


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_modules_say_what_is_missing(module):
    assert not hasattr(module, "no_such_thing")
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_thing'$"):
        _ = module.no_such_thing
    inside = module.__name__.partition(".")[2]
    missing = sorted(n for n in pytorch_names()[inside] if not hasattr(module, n))
    for name in missing[:3]:
        with pytest.raises(
            AbsentNameError, match=f"PyTorch has torch.*{name}, which fastgrad does not have yet"
        ):
            getattr(module, name)


def test_nearest_name():
    with pytest.raises(AttributeError, match=r"nearest name here is fastgrad\.randint$"):
        _ = fg.randints
    assert nearest("fastgrad.nn", "Lineer") == "fastgrad.nn.Linear"
    assert nearest("fastgrad", "qqqqq") is None


def test_the_error_can_be_pickled_and_carries_its_name():
    with pytest.raises(AttributeError) as caught:
        _ = fg.nn.Lineer
    assert (caught.value.name, caught.value.obj) == ("Lineer", fg.nn)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_names_are_those_of_pytorch():
    names = pytorch_names()
    assert {"matmul", "float32", "nn"} <= names[""]
    assert "Linear" in names["nn"]
    assert "backward" in names["Tensor"]
    assert not any(name.startswith("_") for found in names.values() for name in found)


def test_functions_that_are_imported_later_are_names_of_the_package():
    """Whatever module offers a function to the package has been imported, or is when somebody asks for the name."""
    for module in pkgutil.walk_packages(fg.nn.functional.__path__, "fastgrad.nn.functional."):
        importlib.import_module(module.name)
    importlib.import_module("fastgrad.functions.recurrent")
    assert set(public.PACKAGE) <= set(fg.__all__) <= set(dir(fg))
    assert [name for name, function in public.PACKAGE.items() if getattr(fg, name) != function] == []


def test_what_few_programs_need_is_not_imported_with_the_package():
    run = subprocess.run(
        [sys.executable, "-c", "import fastgrad, sys; print(*(m for m in sys.modules if 'fastgrad.' in m))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    early = set(run.stdout.split())
    assert "fastgrad.ops" in early
    assert not early & {"fastgrad.nn", "fastgrad.amp", "fastgrad.optim", "fastgrad.func", "fastgrad.library"}
    for name in ("selu_", "lstm_cell", "autocast", "nn", "vmap"):  # a fresh process finds them all the same
        subprocess.run([sys.executable, "-c", f"from fastgrad import {name}"], check=True)
