"""The base class of optimizers: groups, state dicts, copies, subclasses; and steps over unusual tensors."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from optim_cases import ONE_OF_EACH, arrays, case_id, parameters, set_gradients

import fastgrad as fg
from fastgrad.native.host.tape import record

EACH = pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_id)


def make(lib, case, params):
    return getattr(lib.optim, case[0])(params, **case[1])


def run(optimizer, params, first, count):
    for step in range(first, first + count):
        set_gradients(fg, params, step)
        optimizer.step()


def assert_same(ours, theirs):
    for a, b in zip(arrays(ours), arrays(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


# --- groups ------------------------------------------------------------------------------------------------------


def test_defaults_fill_groups(lib):
    a, b = lib.ones(1, requires_grad=True), lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([{"params": a}, {"params": iter([b]), "lr": 0.5}], lr=0.1, momentum=0.9)
    first, second = optimizer.param_groups
    assert (first["lr"], second["lr"]) == (0.1, 0.5)
    assert first["momentum"] == second["momentum"] == optimizer.defaults["momentum"] == 0.9
    assert first["params"][0] is a
    assert second["params"][0] is b


def test_groups_have_pytorchs_options(lib):
    keys = {
        "SGD": ["params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "foreach",
                "differentiable", "fused"],
        "AdamW": ["params", "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable",
                  "differentiable", "fused", "decoupled_weight_decay"],
        "RMSprop": ["params", "lr", "momentum", "alpha", "eps", "centered", "weight_decay", "capturable", "foreach",
                    "maximize", "differentiable"],
        "Adagrad": ["params", "lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value", "foreach",
                    "maximize", "differentiable", "fused"],
    }  # fmt: skip
    for name, expected in keys.items():
        optimizer = getattr(lib.optim, name)([lib.ones(1, requires_grad=True)])
        assert list(optimizer.param_groups[0]) == expected


def test_names_of_parameters(lib):
    a, b = lib.ones(1, requires_grad=True), lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([("a", a), ("b", b)])
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [lib.ones(1, requires_grad=True)]})
    with pytest.raises(ValueError, match="names are missing"):
        lib.optim.SGD([("a", a), b])


def test_representation(lib):
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.5)
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.5\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        (lambda lib, p: p, TypeError, "iterable of Tensors or dicts"),
        (lambda lib, p: [], ValueError, "empty parameter list"),
        (lambda lib, p: [1], TypeError, "can only optimize Tensors"),
        (lambda lib, p: [p * 2], ValueError, "non-leaf"),
        (lambda lib, p: [{"params": {p}}], TypeError, "ordered collections"),
        (lambda lib, p: [{"params": [p]}, {"params": [p]}], ValueError, "more than one parameter group"),
        (lambda lib, p: [{"params": [p]}, p], TypeError, "must be a dict"),
        (lambda lib, p: [("a", 1)], TypeError, "can only optimize Tensors"),
    ],
)
def test_bad_parameters(lib, params, kind, text):
    p = lib.ones(2, requires_grad=True)
    with pytest.raises(kind, match=text):
        lib.optim.SGD(params(lib, p))


@pytest.mark.parametrize("entry", [(), ("a",), ("a", 1, 2)])
def test_a_name_and_a_parameter_are_a_pair(entry):
    with pytest.raises(TypeError, match=rf"must be a pair \(str, Tensor\), but got {len(entry)} items"):
        fg.optim.Adam([entry])


def test_parameters_twice_in_a_group(lib):
    p = lib.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = lib.optim.SGD([p, p], lr=0.25)
    p.grad = lib.ones(2)
    optimizer.step()
    assert p.tolist() == [0.5, 0.5]


def test_required_options(lib):
    class Custom(lib.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": required})

    required = __import__(f"{lib.__name__}.optim.optimizer", fromlist=["required"]).required
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Custom([lib.ones(1, requires_grad=True)])
    assert Custom([{"params": lib.ones(1, requires_grad=True), "lr": 1}]).param_groups[0]["lr"] == 1


def test_retained_non_leaves_are_parameters(lib):
    x = lib.ones(2, requires_grad=True)
    y = x * 1
    y.retain_grad()
    optimizer = lib.optim.SGD([y], lr=0.5)
    y.sum().backward()
    optimizer.step()
    assert y.tolist() == [0.5, 0.5]


# --- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Using backward")
def test_zero_grad(lib):
    p, q = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([p, q])
    (p * p).sum().backward(create_graph=True)
    grad = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    assert not grad.requires_grad
    assert q.grad is None
    optimizer.zero_grad()
    assert p.grad is None


def test_closure_runs_with_gradients(lib):
    p = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with lib.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert p.tolist() == [0.0, 0.0]


@EACH
def test_a_step_is_not_recorded(case):
    params = parameters(fg, "float32")
    optimizer = make(fg, case, params)
    set_gradients(fg, params, 0)
    for p in params:
        if p.grad is not None:
            p.grad = (p * p.grad).detach().requires_grad_()
    optimizer.step()
    for p in params:
        assert p.is_leaf
        assert all(not t.requires_grad for t in optimizer.state[p].values())


def test_a_step_is_a_change_that_backward_notices(lib):
    p = lib.ones(2, requires_grad=True)
    y = (p * p).sum()
    p.grad = lib.ones(2)
    lib.optim.Adam([p]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_saved_tensors_may_change_in_the_context():
    p = fg.ones(2, requires_grad=True)
    with fg.autograd.graph.allow_mutation_on_saved_tensors():
        y = (p * p).sum()
        p.grad = fg.ones(2)
        fg.optim.SGD([p], lr=0.5).step()
        p.grad = None
        y.backward()
    assert p.grad.tolist() == [2.0, 2.0]


# --- unusual tensors ---------------------------------------------------------------------------------------------


@EACH
def test_dtypes_may_mix(case):
    single, double = parameters(fg, "float32"), parameters(fg, "float64")
    mixed = [*parameters(fg, "float32"), *parameters(fg, "float64")]
    for params in (single, double, mixed):
        optimizer = make(fg, case, params)
        for step in range(3):
            for part in (params[:5], params[5:]):
                set_gradients(fg, part, step)
            optimizer.step()
    assert_same(mixed, single + double)


@EACH
def test_more_parameters_than_fit_one_call(case):
    params = [fg.tensor([float(k)], requires_grad=True) for k in range(2500)]
    for k, p in enumerate(params):
        p.grad = fg.tensor([float(k % 7)])
    make(fg, case, params).step()
    few = [fg.tensor([float(k)], requires_grad=True) for k in range(2480, 2500)]
    for p, q in zip(few, params[2480:], strict=True):
        p.grad = q.grad
    make(fg, case, few).step()
    assert_same(few, params[2480:])


def test_parameters_that_overlap_themselves():
    p = fg.ones(1).expand(3).detach().requires_grad_()
    p.grad = fg.ones(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        fg.optim.SGD([p], lr=0.5).step()


def test_state_that_does_not_fit():
    p, q = fg.ones(3, requires_grad=True), fg.ones(3, requires_grad=True)
    optimizer = fg.optim.Adam([p, q])
    p.grad = q.grad = fg.ones(3)
    optimizer.step()
    before = p.tolist()
    optimizer.state[q]["exp_avg_sq"] = fg.ones(2)
    with pytest.raises(
        RuntimeError, match=r"adam_step\(\): expected exp_avg_sq to have sizes \[3\] and dtype"
    ):
        optimizer.step()
    assert p.tolist() == before
    optimizer.state[q]["exp_avg_sq"] = fg.ones(3)
    optimizer.state[q]["step"] = fg.ones((), dtype=fg.int64)
    with pytest.raises(RuntimeError, match="expected step to have one element of a floating dtype"):
        optimizer.step()
    del optimizer.state[q]["exp_avg"]
    with pytest.raises(KeyError, match="exp_avg"):
        optimizer.step()


def test_amsgrad_cannot_begin_in_the_middle(lib):
    p = lib.ones(3, requires_grad=True)
    optimizer = lib.optim.Adam([p])
    p.grad = lib.ones(3)
    optimizer.step()
    optimizer.param_groups[0]["amsgrad"] = True
    with pytest.raises(KeyError, match="max_exp_avg_sq"):
        optimizer.step()


def test_inference_tensors():
    with fg.inference_mode():
        p = fg.ones(2)
        p.grad = fg.ones(2)
        optimizer = fg.optim.SGD([p], lr=0.5)
        optimizer.step()
    assert p.tolist() == [0.5, 0.5]
    with pytest.raises(RuntimeError, match="inference tensor"):
        optimizer.step()


@EACH
def test_captured_steps_go_on(case):
    """The number of steps is counted by the kernel, so a replay is a step of its own."""
    eager, replayed = parameters(fg, "float32"), parameters(fg, "float32")
    first, second = make(fg, case, eager), make(fg, case, replayed)
    for params, optimizer in ((eager, first), (replayed, second)):
        set_gradients(fg, params, 1)
        optimizer.step()
    with record() as tape:
        second.step()
    tape.replay()
    for _ in range(2):
        first.step()
    assert_same(eager, replayed)


# --- state dicts, copies -----------------------------------------------------------------------------------------


def test_layout_of_a_state_dict(lib):
    a, b, c = (lib.ones(k, requires_grad=True) for k in (1, 2, 3))
    optimizer = lib.optim.Adam([{"params": [a, b]}, {"params": [c]}])
    for p in (a, c):
        p.grad = p.detach()
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert [g["params"] for g in state["param_groups"]] == [[0, 1], [2]]
    assert {k: list(v) for k, v in state["state"].items()} == {
        0: ["step", "exp_avg", "exp_avg_sq"],
        2: ["step", "exp_avg", "exp_avg_sq"],
    }
    assert state["state"][2]["exp_avg"] is optimizer.state[c]["exp_avg"]
    assert state["state"][0]["step"].item() == 1.0


@EACH
def test_going_on_from_a_state_dict(case):
    params = parameters(fg, "float64")
    optimizer = make(fg, case, params)
    run(optimizer, params, 0, 4)
    others = [p.detach().clone().requires_grad_() for p in params]
    other = make(fg, case, others)
    other.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    run(optimizer, params, 4, 3)
    run(other, others, 4, 3)
    assert_same(params, others)


@EACH
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.load(io.BytesIO(pickle.dumps(o)))])
def test_copies_go_their_own_way(case, copied):
    params = parameters(fg, "float64")
    optimizer = make(fg, case, params)
    run(optimizer, params, 0, 4)
    other = copied(optimizer)
    others = other.param_groups[0]["params"]
    before = arrays(params)
    run(other, others, 4, 3)
    for a, b in zip(arrays(params), before, strict=True):
        np.testing.assert_array_equal(a, b)
    run(optimizer, params, 4, 3)
    assert_same(params, others)


def test_loading_converts(lib):
    single, double = lib.ones(2, requires_grad=True), lib.ones(2, dtype=lib.float64, requires_grad=True)
    optimizer, other = lib.optim.Adam([single], lr=0.5), lib.optim.Adam([double])
    single.grad = lib.ones(2)
    optimizer.step()
    other.load_state_dict(optimizer.state_dict())
    state = other.state[double]
    assert state["exp_avg"].dtype == lib.float64
    assert state["step"].dtype == lib.float32
    assert other.param_groups[0]["lr"] == 0.5
    assert other.param_groups[0]["params"][0] is double


def test_loading_keeps_what_it_does_not_know(lib):
    p = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([p])
    state = {
        "state": {0: {"note": "text", "pair": (1, [2])}, "global": 5},
        "param_groups": [{"params": [0], "lr": 1}],
    }
    if lib is not fg:  # torch makes an iterable of everything that has elements
        del state["state"][0]["note"]
    optimizer.load_state_dict(state)
    assert optimizer.state[p] == state["state"][0]
    assert optimizer.state["global"] == 5
    assert optimizer.param_groups[0]["nesterov"] is False


def test_loading_what_does_not_fit(lib):
    p, q = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    state = lib.optim.SGD([p, q]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        lib.optim.SGD([p]).load_state_dict(state)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        lib.optim.SGD([{"params": [p]}, {"params": [q]}]).load_state_dict(state)


def test_steps_counted_in_numbers(lib):
    """As in checkpoints from before PyTorch 1.12."""
    p = lib.ones(2, requires_grad=True)
    p.grad = lib.ones(2)
    optimizer = lib.optim.Adam([p])
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["step"] = 5
    optimizer.load_state_dict(state)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 6.0


# --- subclasses --------------------------------------------------------------------------------------------------


def test_an_optimizer_written_for_torch(lib):
    """A whole subclass in the usual style, with its own state."""

    class Signed(lib.optim.Optimizer):
        def __init__(self, params, lr=0.1, beta=0.5):
            if lr < 0:
                raise ValueError(f"Invalid lr: {lr}")
            super().__init__(params, {"lr": lr, "beta": beta})

        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("beta", 0.5)

        @lib.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with lib.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["average"] = lib.zeros_like(p)
                    state["average"].mul_(group["beta"]).add_(p.grad * (1 - group["beta"]))
                    p.add_(state["average"].sign() * -group["lr"])
            return loss

    p = lib.tensor([1.0, -1.0], requires_grad=True)
    optimizer = Signed([p])
    for _ in range(3):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(p.tolist(), [0.7, -0.7], rtol=1e-6)
    copied = copy.deepcopy(optimizer)
    copied.load_state_dict(optimizer.state_dict())
    assert (
        copied.state[copied.param_groups[0]["params"][0]]["average"].tolist()
        == optimizer.state[p]["average"].tolist()
    )


def test_the_base_class_has_no_step(lib):
    class Nothing(lib.optim.Optimizer):
        pass

    with pytest.raises(NotImplementedError):
        Nothing([lib.ones(1, requires_grad=True)], {}).step()


def test_a_step_in_backward(lib):
    """An optimizer for each parameter, stepped by a post-accumulate hook."""
    params = [lib.ones(2, requires_grad=True) for _ in range(3)]
    optimizers = {p: lib.optim.SGD([p], lr=0.5) for p in params}

    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(hook) for p in params]
    sum(p.sum() for p in params).backward()
    for handle in handles:
        handle.remove()
    assert [p.tolist() for p in params] == [[0.5, 0.5]] * 3
    assert all(p.grad is None for p in params)


def test_a_state_that_is_no_dict():
    p = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.Adam([p])
    p.sum().backward()
    optimizer.step()
    optimizer.state[p] = 3
    with pytest.raises(TypeError, match="the state of a parameter must be a dict, but is a int"):
        optimizer.step()


@pytest.mark.parametrize("option", ["lr", "momentum", "weight_decay"])
def test_a_text_is_no_number(lib, option):
    with pytest.raises(TypeError):
        lib.optim.SGD([lib.ones(1, requires_grad=True)], **{"lr": 0.1, option: "1"})


@pytest.mark.parametrize(
    ("state", "kind", "text"),
    [
        ({"state": 1, "param_groups": [{"params": [0]}]}, TypeError, r"\['state'\]'.* must be Mapping, not int"),
        ({"state": {}, "param_groups": [1]}, TypeError, r"\['param_groups'\]\[0\]'.* must be dict, not int"),
        ({"state": {}, "param_groups": [{}]}, KeyError, "params: a parameter group must have its parameters"),
    ],
)  # fmt: skip
def test_what_is_no_state_dict(state, kind, text):
    with pytest.raises(kind, match=text):
        fg.optim.SGD([fg.ones(1, requires_grad=True)]).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "key"), [("ASGD", "mu"), ("ASGD", "step"), ("NAdam", "mu_product"), ("NAdam", "step")]
)
def test_single_numbers_of_two_dtypes(name, key):
    """Kernels read all of them as one dtype; nothing is written where they are not."""
    w = fg.ones(3, requires_grad=True)
    w.grad = fg.ones(3)
    optimizer = getattr(fg.optim, name)([w])
    optimizer.step()
    before, state = w.tolist(), optimizer.state[w]
    state[key] = state[key].double()
    with pytest.raises(RuntimeError, match="to have one element"):
        optimizer.step()
    assert w.tolist() == before


@pytest.mark.parametrize("name", ["ASGD", "NAdam"])
def test_loading_brings_single_numbers_to_one_dtype(name):
    """Also where loading has brought those, but for the steps, to the dtype of the parameter."""
    results = []
    for dtype in (fg.float64, fg.float16):
        w = fg.ones(3, dtype=dtype, requires_grad=True)
        optimizer = getattr(fg.optim, name)([w])
        optimizer._init_state(optimizer.param_groups[0], w, optimizer.state[w])
        optimizer.load_state_dict(optimizer.state_dict())
        results.append({optimizer.state[w][key].dtype for key in optimizer._counted})
    assert results == [{fg.float32}, {fg.float32}]


def test_a_first_step_that_fails_leaves_no_momentum():
    p = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.SGD([p], lr=0.5, momentum=0.9)
    p.grad = fg.ones(2)
    p.data = fg.ones(3)
    with pytest.raises(RuntimeError):
        optimizer.step()
    assert "momentum_buffer" not in optimizer.state[p]
    p.data = fg.ones(2)
    p.grad = fg.ones(2)
    for expected in (0.5, -0.45):
        optimizer.step()
        assert p.tolist() == pytest.approx([expected, expected])


# --- gradients that are views ------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["optimizer", "module"])
def test_a_gradient_that_is_a_view_is_filled_with_zeros_where_it_is(owner):
    layer = fg.nn.Linear(2, 1, bias=False)
    memory = fg.ones(5)
    layer.weight.grad = memory[1:3].view(1, 2)
    {"optimizer": fg.optim.SGD(layer.parameters(), lr=1.0), "module": layer}[owner].zero_grad(
        set_to_none=False
    )
    assert memory.tolist() == [1, 0, 0, 1, 1]


@pytest.mark.parametrize("owner", ["optimizer", "module"])
def test_a_gradient_with_a_history_loses_it(owner):
    layer = fg.nn.Linear(2, 1, bias=False)
    layer.weight.grad = layer.weight * 2
    assert layer.weight.grad.requires_grad
    {"optimizer": fg.optim.SGD(layer.parameters(), lr=1.0), "module": layer}[owner].zero_grad(
        set_to_none=False
    )
    assert not layer.weight.grad.requires_grad
    assert layer.weight.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("name", ["Adafactor", "Adam", "ASGD", "Muon", "NAdam", "Rprop", "SGD"])
def test_what_is_no_tensor_in_the_state_is_an_error(name):
    p = fg.ones(3, 3, requires_grad=True)
    p.sum().backward()
    optimizer = getattr(fg.optim, name)([p], lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))
    optimizer.step()
    for key, value in list(optimizer.state[p].items()):
        optimizer.state[p][key] = 0
        with pytest.raises(TypeError, match="Tensor"):
            optimizer.step()
        optimizer.state[p][key] = value
    optimizer.step()
