"""The sentences of docs/hooks.md, one test for each number: saved tensors, custom functions, tools."""

from __future__ import annotations

import re
import threading
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import fastgrad as fg

NAN = float("nan")


def leaf(n: int = 2) -> Any:
    return fg.ones(n, requires_grad=True)


# --- saved-tensor hooks ------------------------------------------------------------------------------------------


def test_h89_saved(lib, ones):
    log: list[Any] = []

    def pack(t):
        log.append(("pack", lib.is_grad_enabled()))
        return t.tolist()

    def unpack(packed):
        log.append("unpack")
        return lib.tensor(packed)

    x = ones()
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert log == [("pack", False), "unpack", "unpack"]


def test_h90_saved_innermost(lib, ones):
    log: list[str] = []
    hooks = lib.autograd.graph.saved_tensors_hooks
    outer = hooks(lambda t: log.append("outer"), lambda p: p)
    inner = hooks(lambda t: log.append("inner"), lambda p: p)
    x = ones()
    with outer, inner:
        x.exp()
    assert log == ["inner"]


def test_h91_saved_recorded(lib, ones):
    log: list[Any] = []
    x = ones()
    with lib.autograd.graph.saved_tensors_hooks(log.append, lambda p: p):
        lib.ones(2).exp()
        with lib.no_grad():
            x.exp()
    assert log == []


def test_h92_saved_errors(lib, ones):
    hooks = lib.autograd.graph.saved_tensors_hooks
    y = ones() * 1
    with (
        hooks(lambda t: t.mul_(2), lambda p: p),
        pytest.raises(RuntimeError, match="modifying its input in place"),
    ):
        y.exp()
    with hooks(lambda t: 0, lambda p: 5):
        z = ones().exp()
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        z.sum().backward()
    with pytest.raises(TypeError):
        hooks(5, 5).__enter__()


def test_h93_saved_one(lib, ones):
    log: list[str] = []
    x = ones()
    y = x.pow(2)
    saved = y.grad_fn._raw_saved_self
    saved.register_hooks(lambda t: (log.append("pack"), t.tolist())[1], lambda p: lib.tensor(p) * 10)
    assert log == ["pack"]
    with pytest.raises(RuntimeError, match="already been set"):
        saved.register_hooks(abs, abs)
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]
    with pytest.raises(RuntimeError, match="after it has been freed"):
        saved.register_hooks(abs, abs)


def test_h94_saved_disabled(lib):
    graph = lib.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        graph.saved_tensors_hooks(abs, abs).__enter__()


def test_h95_saved_on_cpu(lib, ones):
    context = lib.autograd.graph.save_on_cpu()
    device, kept = context.pack_hook(lib.ones(2))
    assert (str(device), str(kept.device)) == ("cpu", "cpu")
    x = ones()
    with context:
        y = x.exp()
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


# --- custom functions --------------------------------------------------------------------------------------------


def pair(lib: Any, answer: Any = None, materialize: bool = True) -> Any:
    """A function of two tensors and a number with two outputs; `answer` makes what backward returns."""

    class Pair(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, k):
            ctx.tag = "a tag"
            ctx.set_materialize_grads(materialize)
            return a * k, b * 1

        @staticmethod
        def backward(ctx, g, h):
            return (g, h, None) if answer is None else answer(ctx, g, h)

    return Pair


def test_h96_function_node(lib, ones):
    first, second = pair(lib).apply(ones(), ones(), 3)
    node = first.grad_fn
    assert node is second.grad_fn
    assert node.name() == "PairBackward"
    assert node.tag == "a tag"


def test_h97_function_undefined(lib, ones):
    for materialize in (True, False):
        seen: list[Any] = []
        function = pair(lib, lambda ctx, g, h, seen=seen: (seen.append(h), (g, h, None))[1], materialize)
        first, _ = function.apply(ones(), ones(), 3)
        first.grad_fn.register_prehook(lambda go, seen=seen: seen.append(go[1]))
        first.sum().backward()
        assert seen[0] is None
        assert seen[1].tolist() == [0.0, 0.0] if materialize else seen[1] is None


def test_h98_function_checked(lib, ones):
    log: list[str] = []
    first, _ = pair(lib, lambda ctx, g, h: g).apply(ones(), ones(), 3)
    first.grad_fn.register_hook(lambda gi, go: log.append("post"))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        first.sum().backward()
    assert log == []


def test_h99_function_arguments(lib, ones):
    seen: list[Any] = []
    first, _ = pair(lib).apply(ones(), lib.ones(2), 3)
    assert len(first.grad_fn.next_functions) == 2
    first.grad_fn.register_hook(lambda gi, go: seen.append(len(gi)))
    first.sum().backward()
    assert seen == [2]


def test_h100_function_inside(lib, ones):
    seen: list[Any] = []

    def answer(ctx, g, h):
        ctx.register_hook(lambda gi, go: seen.append(len(gi)))
        return g, h, None

    first, _ = pair(lib, answer).apply(ones(), ones(), 3)
    first.sum().backward()
    assert seen == [2]


# --- hooks as classes --------------------------------------------------------------------------------------------


class Tenfold(fg.autograd.graph.FunctionPreHook):
    def __call__(self, grads):
        return [g * 10 for g in grads]

    def compiled_args(self, args):
        pass


class Double(fg.autograd.graph.FunctionPostHook):
    def __call__(self, outputs, inputs):
        return [o if o is None else o * 2 for o in outputs]

    def compiled_args(self, args):
        pass


def test_h101_class_pre():
    x = leaf()
    y = x * 3
    y.grad_fn.add_pre_hook(Tenfold())
    y.sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]
    with pytest.raises(TypeError):
        y.grad_fn.add_pre_hook(print)


def test_h102_class_post():
    x = leaf()
    y = x * 3
    key = y.grad_fn.add_post_hook(Double())
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert y.grad_fn.del_post_hook(key)
    assert not y.grad_fn.del_post_hook(key)


def test_h103_class_lists():
    y = leaf() * 3
    node = y.grad_fn
    assert node.pre_hooks == node.post_hooks == node.tensor_pre_hooks == []
    y.register_hook(lambda g: g * 7)
    node.register_prehook(lambda go: (go[0] * 5,))
    node.register_hook(lambda gi, go: None)
    assert node.tensor_pre_hooks[0]([fg.ones(2)])[0].tolist() == [7.0, 7.0]
    assert node.pre_hooks[0]([fg.ones(2)])[0].tolist() == [5.0, 5.0]
    assert isinstance(node.post_hooks[0], fg.autograd.graph.FunctionPostHook)


# --- node creation hooks -----------------------------------------------------------------------------------------


def test_h104_creation():
    log: list[str] = []

    def created(node):
        log.append(node.name())
        node.register_prehook(lambda go: log.append("pre"))

    x = leaf()
    with fg.autograd.graph.node_creation_hook(created):
        y = x * 2
        thread = threading.Thread(target=lambda: x * 3)
        thread.start()
        thread.join()
    y.sum().backward()
    assert log == ["MulBackward0", "pre"]


def test_h105_creation_raises():
    def created(node):
        raise KeyError("no nodes")

    x = leaf()
    with fg.autograd.graph.node_creation_hook(created), pytest.raises(KeyError, match="no nodes"):
        x * 2


# --- anomaly mode ------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def spoil(lib: Any, x: Any, **options: Any) -> None:
    """A pass in anomaly mode in which a post-hook makes a NaN."""
    with lib.autograd.detect_anomaly(**options):
        y = x * 1
        y.grad_fn.register_hook(lambda gi, go: (gi[0] * NAN, None))
        y.sum().backward()


@pytest.mark.usefixtures("quiet")
def test_h106_anomaly(lib, ones):
    with pytest.raises(RuntimeError, match="Function 'MulBackward0' returned nan values in its 0th output"):
        spoil(lib, ones())
    x = ones()
    spoil(lib, x, check_nan=False)
    assert x.grad[0].item() != x.grad[0].item()


@pytest.mark.usefixtures("quiet")
def test_h107_anomaly_leaf():
    x = leaf()
    x.register_hook(lambda g: g * NAN)
    with fg.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values"):
        (x * 1).sum().backward()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_h108_anomaly_place(lib, ones):
    def stop(g):
        raise KeyError

    with lib.autograd.detect_anomaly():
        y = ones() * 1
        assert "test_hook_sentences" in "".join(y.grad_fn.metadata["traceback_"])
        y.register_hook(stop)
        with pytest.warns(UserWarning, match="Error detected in MulBackward0"), pytest.raises(KeyError):
            y.sum().backward()


@pytest.mark.usefixtures("quiet")
def test_h109_anomaly_thread():
    seen = []
    with fg.autograd.detect_anomaly():
        thread = threading.Thread(target=lambda: seen.append(fg.autograd.anomaly.is_anomaly_enabled()))
        thread.start()
        thread.join()
        assert fg.autograd.anomaly.is_anomaly_enabled()
    assert seen == [False]


# --- saved tensors that change -----------------------------------------------------------------------------------


def test_h110_mutation(lib, ones):
    x = ones()
    for change in (lambda y: y.add_(1), lambda y: y.detach().add_(1), lib.autograd.graph.increment_version):
        y = x * 1
        z = y.pow(2)
        change(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
    y = x * 1
    z = y.pow(2)
    y.data.add_(1)
    z.sum().backward()


def test_h111_mutation_allowed(lib, ones):
    x = ones()
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 3
        z = y.pow(2)
        y.zero_()
        z.sum().backward()
    assert x.grad.tolist() == [18.0, 18.0]


def test_h112_mutation_after():
    x = leaf()
    with fg.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 3
        z = y.pow(2)
        y.zero_()
        w = y.pow(2)
    z.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [18.0, 18.0]
    y.add_(1)
    z.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w.sum().backward()


# --- lists of hooks, and measuring -------------------------------------------------------------------------------


def test_h113_list():
    y = leaf() * 2
    y.grad_fn.register_hook(lambda gi, go: None)
    y.grad_fn.register_prehook(lambda go: None)
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    assert [h.kind for h in fg.hooks(y)] == ["tensor", "retain_grad", "node_pre", "node_post"]
    assert [h.kind for h in fg.hooks(y.grad_fn)] == ["tensor", "node_pre", "node_post"]
    fg.hooks(y).clear()
    assert [h.kind for h in fg.hooks(y)] == ["retain_grad"]


def test_h114_measure():
    x = leaf()
    x.register_hook(lambda g: None)
    with fg.autograd.graph.measure_hooks():
        for _ in range(3):
            (x * 1).sum().backward()
    (info,) = fg.hooks(x)
    assert info.calls == 3
    assert info.seconds > 0


# --- options -----------------------------------------------------------------------------------------------------


def test_h115_with_tensor():
    seen = []
    x = leaf()
    x.register_hook(lambda g, t: seen.append((g.tolist(), t.tolist())), with_tensor=True)
    (x * 3).sum().backward()
    assert seen == [([3.0, 3.0], [1.0, 1.0])]


def test_h116_materialize():
    seen = []
    x = leaf()
    a, b = x.unbind()
    a.register_hook(lambda g: (seen.append(g.item()), g + 5)[1], materialize=True)
    (b * 2).backward()
    assert seen == [0.0]
    assert x.grad.tolist() == [5.0, 2.0]


# --- every number ------------------------------------------------------------------------------------------------


def test_every_sentence_has_one_test():
    root = Path(__file__).parents[2]
    numbers = [int(n) for n in re.findall(r"^\*\*H(\d+)\*\*", (root / "docs" / "hooks.md").read_text(), re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    files = sorted(Path(__file__).parent.glob("test_hook_sentences*.py"))
    tests = [int(n) for f in files for n in re.findall(r"^def test_h(\d+)_", f.read_text(), re.M)]
    assert sorted(tests) == numbers


# --- the dicts of hooks ----------------------------------------------------------------------------------------


def test_h125_hooks_set(lib):
    x = lib.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    hooks = OrderedDict({1: lambda g: g * 3})
    x._backward_hooks = hooks
    assert x._backward_hooks is hooks
    handle = x.register_hook(lambda g: g + 1)
    assert list(hooks) == [1, handle.id]
    x.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    handle.remove()
    del hooks[1]
    x.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="not allowed"):
        del x._backward_hooks


def test_hooks_set_before_a_gradient_is_wanted(lib):
    x = lib.ones(2)
    x._backward_hooks = OrderedDict({1: lambda g: g * 3})
    x.requires_grad_()
    x.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_hooks_set_in_a_graph(lib):
    x = lib.ones(2, requires_grad=True)
    y = x.sum()
    x._backward_hooks = OrderedDict({1: lambda g: g * 3})
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x._backward_hooks = None
    assert x._backward_hooks is None


def test_set_post_accumulate_hooks(lib):
    x = lib.ones(2, requires_grad=True)
    called = []
    hooks = OrderedDict({1: called.append})
    x._post_accumulate_grad_hooks = hooks
    assert x._post_accumulate_grad_hooks is hooks
    x.sum().backward()
    assert called[0] is x
    with pytest.raises(RuntimeError, match="not allowed"):
        del x._post_accumulate_grad_hooks
    called.clear()
    hooks.clear()


def test_hooks_set_to_none_or_no_dict():
    x = fg.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: 1 / 0)
    x.register_hook(lambda g: 1 / 0)
    x._backward_hooks = x._post_accumulate_grad_hooks = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    for t in (x, x * 2):
        with pytest.raises(
            TypeError, match="_backward_hooks of a tensor must be a dict of hooks or None, not int"
        ):
            t._backward_hooks = 5
    with pytest.raises(
        TypeError, match="_post_accumulate_grad_hooks of a tensor must be a dict of hooks or None"
    ):
        x._post_accumulate_grad_hooks = [print]
    x._backward_hooks = {1: lambda g: g * 2}  # as a dict to which handles can refer
    with x.register_hook(lambda g: g + 1):
        x.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
