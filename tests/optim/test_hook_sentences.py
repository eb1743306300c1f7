"""The sentences of docs/optimizer_hooks.md, one test for each number."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastgrad as fg


def with_gradient(lib) -> Any:
    """A parameter with a gradient, both of ones."""
    p = lib.ones(2, requires_grad=True)
    p.grad = lib.ones(2)
    return p


@pytest.fixture
def parameter(lib) -> Callable[[], Any]:
    return lambda: with_gradient(lib)


@pytest.fixture
def make_sgd(lib) -> Callable[[], Any]:
    """Makes an optimizer whose step takes 0.5 from each element."""
    return lambda: lib.optim.SGD([with_gradient(lib)], lr=0.5)


def base(lib) -> Any:
    """The module of the base class; torch hides it behind its package."""
    return importlib.import_module(f"{lib.__name__}.optim.optimizer")


def value(optimizer) -> float:
    return optimizer.param_groups[0]["params"][0].detach().tolist()[0]


# --- steps -------------------------------------------------------------------------------------------------------


def test_o1_order(lib, make_sgd):
    sgd = make_sgd()
    log = []
    module = base(lib)
    sgd.register_step_post_hook(lambda o, a, k: log.append(("post", value(o))))
    sgd.register_step_pre_hook(lambda o, a, k: log.append(("pre", value(o))))
    with (
        module.register_optimizer_step_post_hook(lambda o, a, k: log.append(("global post", value(o)))),
        module.register_optimizer_step_pre_hook(lambda o, a, k: log.append(("global pre", value(o)))),
    ):
        sgd.step()
    assert log == [("global pre", 1.0), ("pre", 1.0), ("post", 0.5), ("global post", 0.5)]


def test_o2_order_of_registration(make_sgd):
    sgd = make_sgd()
    log = []
    for name in "abc":
        sgd.register_step_pre_hook(lambda o, a, k, name=name: log.append(name))
        sgd.register_step_post_hook(lambda o, a, k, name=name: log.append(name.upper()))
    sgd.step()
    assert log == ["a", "b", "c", "A", "B", "C"]


def test_o3_arguments(make_sgd):
    sgd = make_sgd()
    seen = []
    closure = lambda: 3.0  # noqa: E731
    sgd.register_step_pre_hook(lambda *call: seen.append(call))
    sgd.register_step_post_hook(lambda *call: seen.append(call))
    sgd.step(closure)
    sgd.step(closure=closure)
    positional, named = (sgd, (sgd, closure), {}), (sgd, (sgd,), {"closure": closure})
    assert seen == [positional, positional, named, named]


def test_o4_pre_hooks_replace_arguments(make_sgd):
    sgd = make_sgd()
    seen = []
    sgd.register_step_pre_hook(lambda o, a, k: ((o,), {"closure": lambda: 7.0}))
    sgd.register_step_pre_hook(lambda o, a, k: seen.append(list(k)))
    sgd.register_step_post_hook(lambda o, a, k: seen.append(list(k)))
    assert sgd.step() == 7.0
    assert seen == [["closure"], ["closure"]]


@pytest.mark.parametrize("wrong", [5, (1,), [(), {}], (1, 2, 3)])
def test_o5_wrong_replacements(make_sgd, wrong):
    sgd = make_sgd()
    sgd.register_step_pre_hook(lambda o, a, k: wrong)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        sgd.step()
    assert value(sgd) == 1.0


def test_o6_results(make_sgd):
    sgd = make_sgd()
    sgd.register_step_post_hook(lambda o, a, k: (5, 6))
    assert sgd.step() is None
    assert sgd.step(lambda: 4.0) == 4.0


def test_o7_exceptions(make_sgd):
    sgd = make_sgd()
    log = []

    def fail(*_):
        raise KeyError("hook")

    handle = sgd.register_step_pre_hook(fail)
    sgd.register_step_pre_hook(lambda *_: log.append("pre"))
    sgd.register_step_post_hook(lambda *_: log.append("post"))
    with pytest.raises(KeyError):
        sgd.step()
    assert log == []
    assert value(sgd) == 1.0
    handle.remove()
    with pytest.raises(KeyError):
        sgd.step(fail)
    assert log == ["pre"]
    sgd.step()
    assert log == ["pre", "pre", "post"]


def test_o8_closure(make_sgd):
    sgd = make_sgd()
    log = []
    sgd.register_step_pre_hook(lambda *_: log.append("pre"))
    sgd.register_step_post_hook(lambda *_: log.append("post"))
    sgd.step(lambda: log.append("closure"))
    assert log == ["pre", "closure", "post"]


def test_o9_once_for_each_step():
    class Sub(fg.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    fg.optim.SGD([with_gradient(fg)])
    optimizer, log = Sub([with_gradient(fg)], lr=0.5), []
    optimizer.register_step_pre_hook(lambda *_: log.append("pre"))
    optimizer.register_step_post_hook(lambda *_: log.append("post"))
    optimizer.step()
    assert log == ["pre", "post"]
    optimizer.step(optimizer.step)
    assert log == ["pre", "post"] * 2
    assert value(optimizer) == -0.5


def test_o10_subclasses(lib, parameter):
    class Nothing(lib.optim.Optimizer):
        def step(self):
            return "nothing"

    optimizer, log = Nothing([parameter()], {}), []
    optimizer.register_step_post_hook(lambda *_: log.append("post"))
    assert optimizer.step() == "nothing"
    assert log == ["post"]


def test_o11_global_hooks(lib, make_sgd, parameter):
    sgd = make_sgd()
    log = []
    with base(lib).register_optimizer_step_post_hook(lambda o, a, k: log.append(o)):
        later = lib.optim.Adam([parameter()])
        sgd.step()
        later.step()
    sgd.step()
    assert log == [sgd, later]


def test_o12_only_steps(make_sgd, parameter):
    sgd = make_sgd()
    log = []
    sgd.register_step_pre_hook(lambda *_: log.append("pre"))
    sgd.register_step_post_hook(lambda *_: log.append("post"))
    sgd.zero_grad()
    sgd.add_param_group({"params": [parameter()]})
    sgd.load_state_dict(sgd.state_dict())
    assert log == []


def test_o13_handles(make_sgd):
    sgd = make_sgd()
    log = []
    handle = sgd.register_step_pre_hook(lambda *_: log.append("a"))
    with sgd.register_step_post_hook(lambda *_: log.append("b")):
        sgd.step()
    handle.remove()
    sgd.step()
    assert log == ["a", "b"]


def test_o14_no_prepend(lib, make_sgd):
    sgd = make_sgd()
    module = base(lib)
    for register in (
        sgd.register_step_pre_hook,
        sgd.register_step_post_hook,
        module.register_optimizer_step_pre_hook,
        module.register_optimizer_step_post_hook,
    ):
        with pytest.raises(TypeError, match="prepend"):
            register(lambda *_: None, prepend=True)


def test_o15_copies(make_sgd):
    sgd = make_sgd()
    log = []
    sgd.register_step_pre_hook(lambda *_: log.append("pre"))
    sgd.register_state_dict_pre_hook(lambda o: log.append("state"))
    for other in (copy.deepcopy(sgd), pickle.loads(pickle.dumps(sgd))):
        other.step()
        other.state_dict()
        other.register_step_post_hook(lambda *_: log.append("post"))
    assert log == []
    sgd.step()
    assert log == ["pre"]


def test_o16_changes_while_hooks_run():
    sgd, log = fg.optim.SGD([with_gradient(fg)]), []

    def hook(*_):
        log.append("once")
        handle.remove()
        sgd.register_step_pre_hook(lambda *_: log.append("next"))

    handle = sgd.register_step_pre_hook(hook)
    sgd.step()
    assert log == ["once"]
    sgd.step()
    assert log == ["once", "next"]


# --- state dicts -------------------------------------------------------------------------------------------------


def test_o17_before_state_dict(make_sgd):
    sgd = make_sgd()

    def hook(optimizer):
        optimizer.param_groups[0]["lr"] = 0.25

    sgd.register_state_dict_pre_hook(hook)
    assert sgd.state_dict()["param_groups"][0]["lr"] == 0.25


def test_o18_after_state_dict(make_sgd):
    sgd = make_sgd()
    seen = []
    sgd.register_state_dict_post_hook(lambda o, d: seen.append((o, list(d))))
    sgd.register_state_dict_post_hook(lambda o, d: {**d, "more": 1})
    sgd.register_state_dict_post_hook(lambda o, d: d.update(most=2))
    assert list(sgd.state_dict()) == ["state", "param_groups", "more", "most"]
    assert seen == [(sgd, ["state", "param_groups"])]


def test_o19_before_loading(make_sgd):
    sgd = make_sgd()
    given = sgd.state_dict()

    def replaced(optimizer, state):
        assert optimizer is sgd
        assert state == given
        assert state is not given
        state["param_groups"] = [{**state["param_groups"][0], "lr": 0.125}]
        return {**state, "more": 1}

    sgd.register_load_state_dict_pre_hook(replaced)
    sgd.load_state_dict(given)
    assert sgd.param_groups[0]["lr"] == 0.125
    assert given["param_groups"][0]["lr"] == 0.5


def test_o20_after_loading(make_sgd):
    sgd = make_sgd()
    given = sgd.state_dict()
    given["param_groups"][0]["lr"] = 0.125
    seen = []
    sgd.register_load_state_dict_post_hook(lambda o: seen.append((o, o.param_groups[0]["lr"])))
    sgd.load_state_dict(given)
    assert seen == [(sgd, 0.125)]


def test_o21_prepend(make_sgd):
    sgd = make_sgd()
    log = []
    for kind in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
        register = getattr(sgd, f"register_{kind}_hook")
        register(lambda *_, kind=kind: log.append((kind, 1)))
        register(lambda *_, kind=kind: log.append((kind, 0)), prepend=True)
    sgd.load_state_dict(sgd.state_dict())
    assert log == [
        (kind, k)
        for kind in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")
        for k in (0, 1)
    ]


def test_o22_results_are_not_checked(make_sgd):
    sgd = make_sgd()
    sgd.register_state_dict_post_hook(lambda o, d: 5)
    assert sgd.state_dict() == 5


# --- every number ------------------------------------------------------------------------------------------------


def test_every_sentence_has_one_test():
    text = (Path(__file__).parents[2] / "docs" / "optimizer_hooks.md").read_text()
    numbers = [int(n) for n in re.findall(r"^\*\*O(\d+)\*\*", text, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    tests = [int(n) for n in re.findall(r"^def test_o(\d+)_", Path(__file__).read_text(), re.M)]
    assert tests == numbers
