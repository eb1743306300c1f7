"""Arguments of the wrong type or out of range: the answer names function, argument, what was expected and what came."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.nn import functional as F  # noqa: F401 - what the table calls

NOT_A_TENSOR = {
    "fg.ones(()).outer(0)": r"outer\(\): argument 'vec2' \(position 2\) must be Tensor, not int",
    "fg.ones(2, 3).mv('x')": r"mv\(\): argument 'vec' \(position 2\) must be Tensor, not str",
    "fg.ones(2, 3).dot(None)": r"dot\(\): argument 'tensor' \(position 2\) must be Tensor, not NoneType",
    "fg.ones(2).view_as(3)": r"view_as\(\): argument 'other' \(position 1\) must be Tensor, not int",
    "fg.ones(2).reshape_as(3)": r"reshape_as\(\): argument 'other' \(position 1\) must be Tensor, not int",
    "fg.Tensor.bernoulli_(0)": r"bernoulli_\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "fg.Tensor.geometric_(0, 0.5)": r"geometric_\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "fg.Tensor.cauchy_(0)": r"cauchy_\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "F.nll_loss(fg.ones(2, 3), fg.tensor([0, 1]), 2)": r"nll_loss\(\): argument 'weight' \(position 3\) must be Tensor",
    "F.cross_entropy(fg.ones(2, 3), fg.ones(2, 3), 2)": r"cross_entropy\(\): argument 'weight' \(position 3\)",
    "F.mse_loss(fg.ones(2), fg.ones(2), weight=2)": r"mse_loss\(\): argument 'weight' \(position 6\) must be Tensor",
    "F.huber_loss(fg.ones(2), fg.ones(2), weight=2)": r"huber_loss\(\): argument 'weight' \(position 5\)",
    "fg.nn.Flatten()(0)": r"flatten\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "fg.nn.Unflatten(0, (1, 1))(0)": r"unflatten\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "fg.nn.BatchNorm1d(3)(0)": r"batch_norm\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "fg.nn.MultiheadAttention(2, 1)(0, 0, 0)": r"argument 'query' \(position 1\) must be Tensor, not int",
    "fg.nn.MultiheadAttention(2, 1)(fg.ones(1, 2), 0, 0)": r"argument 'key' \(position 2\) must be Tensor, not int",
    "fg.nn.MultiheadAttention(2, 1)(*[fg.ones(1, 2)] * 3, attn_mask=0)": r"argument 'attn_mask' \(position 18\)",
    "fg.nn.Embedding(2, 3, _weight=0)": r"Embedding\(\): argument '_weight' \(position 8\) must be Tensor, not int",
    "fg.nn.Embedding.from_pretrained(0)": r"from_pretrained\(\): argument 'embeddings' \(position 1\)",
    "fg.nn.init.uniform_(0)": r"uniform_\(\): argument 'tensor' \(position 1\) must be Tensor, not int",
    "fg.nn.init.kaiming_normal_(tensor='x')": r"kaiming_normal_\(\): argument 'tensor' \(position 1\)",
    "fg.nn.init.kaiming_uniform_(fg.ones(2, 2), mode=(2, 3))": r"argument 'mode' \(position 3\) must be str, not tuple",
    "fg.nn.init.sparse_(None, 0.5)": r"sparse_\(\): argument 'tensor' \(position 1\) must be Tensor, not NoneType",
    "fg.nn.utils.get_total_norm([None])": r"get_total_norm\(\): argument .tensors. .* type NoneType at pos 0",
    "fg.nn.utils.clip_grad_norm_([0], 1.0)": r"clip_grad_norm_\(\): argument .parameters. .* type int at pos 0",
    "fg.nn.utils.parameters_to_vector('x')": r"parameters_to_vector\(\): argument 'parameters' .* type str at pos 0",
    "fg.nn.utils.weight_norm(0)": r"weight_norm\(\): argument 'module' \(position 1\) must be Module, not int",
    "fg.nn.utils.remove_weight_norm(0)": r"remove_weight_norm\(\): argument 'module' \(position 1\) must be Module",
    "fg.nn.utils.rnn.unpack_sequence(0)": r"argument 'sequence' \(position 1\) must be PackedSequence, not int",
    "fg.nn.utils.rnn.pack_sequence([None])": r"pack_sequence\(\): argument .sequences. .* of type NoneType",
    "fg.nn.Linear(1, 1).get_buffer(0)": r"get_buffer\(\): argument 'target' \(position 1\) must be str, not int",
    "fg.nn.Linear(1, 1).get_parameter(0)": r"get_parameter\(\): argument 'target' \(position 1\) must be str, not int",
    "fg.nn.Linear(1, 1).get_submodule(0)": r"get_submodule\(\): argument 'target' \(position 1\) must be str, not int",
    "fg.autograd.Variable(0)": r"Variable data has to be a tensor, but got int",
    "fg.autograd.graph.get_gradient_edge(0)": r"get_gradient_edge\(\): argument 'tensor' \(position 1\) must be Tensor",
    "fg.autograd.graph.register_multi_grad_hook([0], print)": r"argument .tensors. .* of type int at pos 0",
    "fg.autograd.graph.register_multi_post_accumulate_grad_hook(fg.ones(2), print)": r"iterable of Tensors, not Tensor",
    "fg.utils.data.TensorDataset(0)": r"TensorDataset\(\): argument 'tensors' .* found element of type int at pos 0",
    "fg.utils.data.default_collate({})": r"default_collate\(\): argument .batch. .* sequence of samples, not dict",
    "fg.utils.hooks.unserializable_hook(0)": r"unserializable_hook\(\): argument 'f' must be a function .*, not int",
    "fg.optim.SGD([fg.ones(1)], lr=1).load_state_dict(0)": r"load_state_dict\(\): argument 'state_dict' .* not int",
    "fg.optim.lr_scheduler.LambdaLR(0, print)": r"int is not an Optimizer",
    "fg.randint('a', (2,))": r"randint\(\): argument 'high' must be int, not str",
}  # fmt: skip

OUT_OF_RANGE = {
    "fg.arange(2**62)": (RuntimeError, r"arange\(\): Storage size calculation overflowed"),
    "fg.eye(2**40)": (RuntimeError, r"eye\(\): Storage size calculation overflowed"),
    "fg.linspace(0, 1, 2**62)": (RuntimeError, r"linspace\(\): Storage size calculation overflowed"),
    "fg.randperm(2**62)": (RuntimeError, r"randperm\(\): Storage size calculation overflowed"),
    "fg.rand(-1)": (RuntimeError, r"rand\(\): Trying to create tensor with negative dimension -1"),
    "fg.randn(-1)": (RuntimeError, r"randn\(\): Trying to create tensor with negative dimension -1"),
    "fg.randint(3, (-1,))": (RuntimeError, r"randint\(\): Trying to create tensor with negative dimension -1"),
    "fg.normal(0.0, 1.0, (-1,))": (RuntimeError, r"normal\(\): Trying to create tensor with negative dimension"),
    "fg.randint(0, 2**70, (2,))": (ValueError, r"argument 'high': Overflow when unpacking long long"),
    "None in fg.ones(2)": (RuntimeError, r"only supports Tensor or scalar, but you passed in a <class 'NoneType'>"),
    "fg.utils.data.default_collate([])": (ValueError, r"at least one sample, but it is empty"),
    "fg.optim.Adam([fg.ones(1)], betas=[])": (ValueError, r"Invalid betas: \[\]; expected a tuple of two numbers"),
    "fg.optim.SGD([fg.ones(1)], lr=1).load_state_dict({})": (KeyError, r"param_groups: the state dict"),
    "fg.optim.SGD([fg.ones(1)], lr=1).add_param_group({})": (KeyError, r"params: a parameter group must have its"),
    "fg.autograd.Function.backward(0)": (NotImplementedError, r"implement either the backward or vjp method"),
}  # fmt: skip


@pytest.mark.parametrize("text", NOT_A_TENSOR)
def test_a_wrong_type_is_a_type_error_that_names_function_and_argument(text: str):
    with pytest.raises(TypeError, match=NOT_A_TENSOR[text]):
        eval(text)


@pytest.mark.parametrize("text", OUT_OF_RANGE)
def test_a_wrong_value_is_an_error_that_names_the_function(text: str):
    kind, match = OUT_OF_RANGE[text]
    with pytest.raises(kind, match=match):
        eval(text)


def test_a_damaged_state_of_an_optimizer_names_what_is_missing():
    p = fg.ones(2, requires_grad=True)
    p.sum().backward()
    optimizer = fg.optim.Adam([p])
    optimizer.state[p] = {"step": fg.tensor(0.0)}
    with pytest.raises(KeyError, match="exp_avg: missing in the options or the state of a parameter of Adam"):
        optimizer.step()


def test_a_context_of_no_call_keeps_what_it_is_told():
    context = fg.autograd.function.FunctionCtx()
    x = fg.ones(2)
    context.save_for_backward(x)
    context.mark_dirty(x)
    context.set_materialize_grads(False)
    assert context._to_save == (x,)
    assert context._dirty == (x,)


WRONG_OPTIONS = [
    ({"precision": "x"}, TypeError, "argument 'precision' must be int, not str"),
    ({"precision": 2.5}, TypeError, "argument 'precision' must be int, not float"),
    ({"precision": -1}, ValueError, "argument 'precision' must be from 0 to 1000, but is -1"),
    ({"edgeitems": fg.Tensor}, TypeError, "argument 'edgeitems' must be int"),
    ({"linewidth": 0}, ValueError, "argument 'linewidth' must be from 1 to inf, but is 0"),
    ({"threshold": "x"}, TypeError, "argument 'threshold' must be a number, not str"),
    ({"threshold": float("nan")}, ValueError, "argument 'threshold' must be from 0 to inf, but is nan"),
    ({"sci_mode": 1}, TypeError, "argument 'sci_mode' must be bool or None, not int"),
    ({"profile": "loud"}, ValueError, "profile must be one of"),
]


@pytest.mark.parametrize(("options", "kind", "message"), WRONG_OPTIONS)
def test_print_options_are_refused_as_a_whole(options: dict, kind: type[Exception], message: str):
    before = fg.formatting.get_printoptions()
    with pytest.raises(kind, match=rf"set_printoptions\(\): .*{re.escape(message)}"):
        fg.set_printoptions(**{"linewidth": 60, **options})
    assert fg.formatting.get_printoptions() == before
    assert repr(fg.ones(2)) == "tensor([1., 1.])"


def test_print_options_take_any_integer():
    with fg.formatting.printoptions(precision=fg.tensor(2), threshold=float("inf")):
        assert repr(fg.tensor(1.23456)) == "tensor(1.23)"


NOTHING: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda lib, x: x.softmax(None),
    "log_softmax": lambda lib, x: lib.log_softmax(x, None),
    "topk": lambda lib, x: x.topk(None),
    "flip": lambda lib, x: lib.flip(x),
    "view": lambda lib, x: x.view(),
    "reshape": lambda lib, x: x.reshape(),
    "expand": lambda lib, x: x.expand(),
    "permute": lambda lib, x: x.permute(),
    "repeat": lambda lib, x: x.repeat(),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_has_to_be_given(lib: Any, name: str):
    with pytest.raises(TypeError):
        NOTHING[name](lib, lib.ones(()))


@pytest.mark.parametrize("name", ["view", "reshape", "expand", "permute", "repeat"])
def test_an_empty_tuple_is_given(lib: Any, name: str):
    assert getattr(lib.ones(()), name)(()).shape == ()
