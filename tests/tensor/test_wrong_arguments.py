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


BIG = 1 << 64

# PyTorch raises the same class for each of them.
CLASSES: dict[str, tuple[type[Exception], Callable[[Any, Any], Any]]] = {
    "zeros of a bool": (TypeError, lambda lib, x: lib.zeros(True)),
    "zeros of a bool in a tuple": (TypeError, lambda lib, x: lib.zeros((True,))),
    "full, a tensor for sizes": (TypeError, lambda lib, x: lib.full(lib.tensor([2]), 1.0)),
    "full, a number for sizes": (TypeError, lambda lib, x: lib.full(3, 1.0)),
    "full of a wide int": (OverflowError, lambda lib, x: lib.full((2,), BIG)),
    "tensor of a wide int": (ValueError, lambda lib, x: lib.tensor(BIG)),
    "view, a bool": (TypeError, lambda lib, x: x.view(True, 6)),
    "permute, a bool": (TypeError, lambda lib, x: x.permute((True, False))),
    "flatten, a bool": (TypeError, lambda lib, x: x.flatten(True)),
    "unbind, no integer": (TypeError, lambda lib, x: x.unbind(1.0)),
    "unflatten, a tensor": (TypeError, lambda lib, x: x.unflatten(1, lib.tensor([3]))),
    "broadcast_to, a tensor": (TypeError, lambda lib, x: x.broadcast_to(lib.tensor([2, 3]))),
    "randint, a number for sizes": (TypeError, lambda lib, x: lib.randint(3, 2)),
    "sum, a wide dimension": (ValueError, lambda lib, x: x.sum(BIG)),
    "sum, a wide dimension of several": (TypeError, lambda lib, x: x.sum((BIG,))),
    "layer_norm, a tensor": (TypeError, lambda lib, x: lib.nn.functional.layer_norm(x, lib.tensor([3]))),
    "layer_norm, a set": (TypeError, lambda lib, x: lib.nn.functional.layer_norm(x, {3})),
    "layer_norm, text": (TypeError, lambda lib, x: lib.nn.functional.layer_norm(x, "a")),
    "cat of nothing along None": (TypeError, lambda lib, x: lib.cat((), None)),
    "stack of nothing along None": (TypeError, lambda lib, x: lib.stack((), None)),
    "cat of nothing": (ValueError, lambda lib, x: lib.cat(())),
    "a wide index": (ValueError, lambda lib, x: x[BIG]),
    "a wide index behind another": (ValueError, lambda lib, x: x[0, -BIG]),
    "wide indices": (ValueError, lambda lib, x: x[[BIG]]),
    "an index beyond int64": (ValueError, lambda lib, x: x[[BIG - 1]]),
    "writing at a wide index": (ValueError, lambda lib, x: x.__setitem__(BIG, 1.0)),
    "text as index": (TypeError, lambda lib, x: x["a"]),
    "text in a slice": (TypeError, lambda lib, x: x["a":]),
    "a wide stride": (ValueError, lambda lib, x: conv(lib, stride=BIG)),
    "a wide stride of several": (TypeError, lambda lib, x: conv(lib, stride=(BIG,))),
    "a wide padding": (ValueError, lambda lib, x: conv(lib, padding=BIG)),
    "a wide dilation": (ValueError, lambda lib, x: conv(lib, dilation=BIG)),
    "a wide window": (ValueError, lambda lib, x: lib.nn.functional.max_pool1d(lib.ones(1, 1, 3), BIG)),
    "pad with a wide int": (TypeError, lambda lib, x: lib.nn.functional.pad(x, (BIG, 0))),
    "pad with None": (TypeError, lambda lib, x: lib.nn.functional.pad(x, None)),
    "pad beyond all sizes": (RuntimeError, lambda lib, x: lib.nn.functional.pad(x, (2**62, 2**62))),
    "zero_ of None": (TypeError, lambda lib, x: lib.Tensor.zero_(None)),
    "requires_grad_ of None": (TypeError, lambda lib, x: lib.Tensor.requires_grad_(None)),
    "type of None": (TypeError, lambda lib, x: lib.Tensor.type(None)),
    "view_as of a number": (TypeError, lambda lib, x: lib.Tensor.view_as(1, x)),
    "set_ of a number": (TypeError, lambda lib, x: lib.Tensor.set_(1, x)),
    "unbind of a number": (TypeError, lambda lib, x: lib.Tensor.unbind(1)),
    "item of None": (TypeError, lambda lib, x: lib.Tensor.item(None)),
    "to of a number": (TypeError, lambda lib, x: lib.Tensor.to(1)),
    "new_zeros of None": (TypeError, lambda lib, x: lib.Tensor.new_zeros(None, 2)),
    "set_multithreading_enabled of text": (TypeError, lambda lib, x: lib.autograd.set_multithreading_enabled("x")),
    "set_grad_enabled of a number": (TypeError, lambda lib, x: lib.set_grad_enabled(1)),
    "set_detect_anomaly of text": (TypeError, lambda lib, x: lib.autograd.set_detect_anomaly("x")),
}  # fmt: skip


def conv(lib: Any, **settings: Any) -> Any:
    return lib.nn.functional.conv1d(lib.ones(1, 1, 3), lib.ones(1, 1, 2), **settings)


@pytest.mark.parametrize("what", CLASSES)
def test_the_class_of_the_error_is_that_of_pytorch(lib: Any, what: str):
    kind, call = CLASSES[what]
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the class is looked at
        call(lib, lib.ones(2, 3))
    assert raised.type is kind


WIDE = {
    "x[BIG]": r"select\(\): Overflow when unpacking long long: one of the integers \[0, 18446744073709551616\]",
    "x[0, BIG]": r"index\(\): Overflow when unpacking long long, the index is 18446744073709551616",
    "conv(fg, stride=BIG)": r"conv1d\(\): argument 'stride': Overflow when unpacking long long, the number is",
    "F.pad(x, (0, BIG))": r"pad\(\): argument 'pad' failed to unpack the object at pos 2",
    "x.flatten(0, 1.0)": r"flatten\(\): argument 'end_dim' must be int, not float",
    "fg.zeros(True)": r"zeros\(\): argument 'size' must be tuple of ints, but found element of type bool at pos 0",
    "F.layer_norm(x, x)": r"layer_norm\(\): argument 'normalized_shape' \(position 2\) must be tuple of ints, not Ten",
    "fg.Tensor.item('a')": r"descriptor 'item' for 'fastgrad.Tensor' objects doesn't apply to a 'str' object",
    "fg.Tensor.set_(None)": r"descriptor 'set_' for 'fastgrad.Tensor' objects doesn't apply to a 'NoneType' object",
    "x['a':]": r"slice\(\): slice indices must be integers or None .*, but got str",
}


@pytest.mark.parametrize("text", WIDE)
def test_the_error_names_function_and_argument(text: str):
    with pytest.raises((TypeError, ValueError), match=WIDE[text]):
        eval(text, {**globals(), "x": fg.ones(2, 3)})


def test_methods_called_as_functions_of_no_tensor():
    """None raises an AttributeError about a part of the library that its caller does not know."""
    wrong = []
    for name in dir(fg.Tensor):
        method = getattr(fg.Tensor, name)
        if name.startswith("_") or not callable(method):
            continue
        for given in ((), (fg.ones(2),), (fg.ones(2), fg.ones(2))):
            try:
                method(None, *given)
            except AttributeError:
                wrong.append((name, given))
            except Exception:  # of any other class
                pass
    assert not wrong


@pytest.mark.parametrize("index", [range(2), [0, 1]])
def test_a_range_is_an_index_as_a_list_is(lib: Any, index: Any):
    assert lib.tensor([[1.0], [2.0], [3.0]])[index].tolist() == [[1.0], [2.0]]


def test_a_tensor_of_no_memory(lib: Any):
    x = lib.ones(2, 3)
    assert x.set_() is x
    assert (tuple(x.shape), x.stride(), x.numel(), x._version, x.dtype) == ((0,), (1,), 0, 1, lib.float32)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        lib.ones(2, requires_grad=True).set_()
    with pytest.raises(TypeError):
        x.set_(None)


# Numbers and switches that mean nothing: both libraries refuse them with this class.
MEANINGLESS: dict[str, tuple[type[Exception], Callable[[Any, Any], Any]]] = {
    "backward, retain_graph of text": (TypeError, lambda lib, x: x.requires_grad_().sum().backward(None, "a")),
    "backward, create_graph of a list": (TypeError, lambda lib, x: x.requires_grad_().sum().backward(None, None, [1])),
    "backward of None": (TypeError, lambda lib, x: lib.autograd.backward(None)),
    "grad with regard to None": (TypeError, lambda lib, x: lib.autograd.grad(x.requires_grad_().sum(), None)),
    "grad, allow_unused of text": (
        TypeError, lambda lib, x: lib.autograd.grad(x.requires_grad_().sum(), x, allow_unused="a"),
    ),
    "a device of index 1.5": (TypeError, lambda lib, x: lib.device("cpu", 1.5)),
    "zeros, requires_grad of a number": (TypeError, lambda lib, x: lib.zeros(2, requires_grad=0)),
    "dropout, training of text": (TypeError, lambda lib, x: lib.nn.functional.dropout(x, 0.5, "yes")),
    "batch_norm, training of a number": (
        TypeError, lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=1),
    ),
    "attention, is_causal of a number": (
        TypeError, lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=1),
    ),
    "layer_norm, eps of text": (TypeError, lambda lib, x: lib.nn.functional.layer_norm(x, (3,), eps="a")),
    "group_norm, groups of a bool": (TypeError, lambda lib, x: lib.nn.functional.group_norm(x, True)),
    "leaky_relu, slope of text": (TypeError, lambda lib, x: lib.nn.functional.leaky_relu(x, "a")),
    "elu, alpha of text": (TypeError, lambda lib, x: lib.nn.functional.elu(x, "a")),
    "softplus, beta of text": (TypeError, lambda lib, x: lib.nn.functional.softplus(x, "a")),
    "one_hot, a fraction of classes": (TypeError, lambda lib, x: lib.nn.functional.one_hot(lib.tensor([0]), 1.5)),
    "linspace from text": (TypeError, lambda lib, x: lib.linspace("a", 1.0, 3)),
    "arange of a wide int": (OverflowError, lambda lib, x: lib.arange(BIG)),
    "arange, a step of NaN": (RuntimeError, lambda lib, x: lib.arange(0, 3, float("nan"))),
    "isclose, a tolerance of NaN": (RuntimeError, lambda lib, x: lib.isclose(x, x, float("nan"))),
    "normal, sizes of tensors": (TypeError, lambda lib, x: lib.normal(x, 1.0, (2, 3))),
    "cauchy_ around a list": (TypeError, lambda lib, x: x.cauchy_([1.5])),
    "uniform_ between tensors": (TypeError, lambda lib, x: x.uniform_(x, 1.0)),
    "scatter_add at a number": (TypeError, lambda lib, x: lib.scatter_add(x, 0, 0, x)),
    "lstm_cell, one state": (TypeError, lambda lib, x: lib.lstm_cell(x, x, x, x)),
    "squeeze, a dimension twice": (RuntimeError, lambda lib, x: x.squeeze((0, 0))),
    "logsumexp, a dimension twice": (RuntimeError, lambda lib, x: x.logsumexp((1, -1))),
    "flatten beyond a number": (IndexError, lambda lib, x: lib.ones(()).flatten(0, 1)),
    "unflatten of a number": (RuntimeError, lambda lib, x: lib.ones(()).unflatten(0, (1,))),
    "roll of a number": (IndexError, lambda lib, x: lib.ones(()).roll(1, 0)),
    "unbind of a number": (IndexError, lambda lib, x: lib.ones(()).unbind()),
    "repeat_interleave of a number": (IndexError, lambda lib, x: lib.ones(()).repeat_interleave(2, 0)),
    "a size of a number": (IndexError, lambda lib, x: lib.ones(()).size(0)),
    "a stride of a number": (IndexError, lambda lib, x: lib.ones(()).stride(0)),
    "rows of a number": (IndexError, lambda lib, x: lib.utils.data.TensorDataset(lib.ones(()))),
    "a sequence that is a number": (IndexError, lambda lib, x: lib.nn.utils.rnn.pack_sequence([lib.ones(())])),
    "a dtype made": (TypeError, lambda lib, x: lib.dtype(1)),
    "an encoder of no layers": (TypeError, lambda lib, x: lib.nn.TransformerEncoder(2**70, 2)),
}  # fmt: skip


@pytest.mark.parametrize("what", MEANINGLESS)
def test_what_means_nothing_is_refused(lib: Any, what: str):
    kind, call = MEANINGLESS[what]
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the class is looked at
        call(lib, lib.ones(2, 3))
    assert raised.type is kind


@pytest.mark.parametrize("truth", [1, 0])
def test_the_engine_takes_integers_for_bools(lib: Any, truth: int):
    x = lib.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=truth)
    if truth:
        y.backward()
    assert x.grad.tolist() == [2.0 + 2.0 * truth] * 2


def test_tensors_of_one_element_are_numbers(lib: Any):
    x = lib.ones(2, 3)
    assert lib.nn.functional.dropout(x, lib.tensor(1.0)).sum() == 0
    assert lib.normal(lib.tensor(0.0), 1.0, (2, 3)).shape == (2, 3)
    assert lib.nn.functional.leaky_relu(-x, lib.tensor(0.5)).sum() == -3


@pytest.mark.parametrize("call", [
    lambda x: x.size(0), lambda x: x.stride(0), lambda x: x.roll(1, 0), lambda x: x.unbind(0),
    lambda x: x.repeat_interleave(2, 0), lambda x: fg.nn.utils.rnn.pad_sequence([x]),
])  # fmt: skip
def test_a_dimension_of_a_number_is_named(call: Any):
    with pytest.raises(IndexError, match=r"^\w+\(\): dimension specified as 0 but tensor has no dimensions$"):
        call(fg.ones(()))


@pytest.mark.parametrize("code", [-1, len(fg.dtypes.ALL), 2**70, "float32", None])
def test_a_code_of_no_dtype(code: Any):
    with pytest.raises(ValueError, match="expected the code of a dtype"):
        fg.dtypes.of_code(code)


def test_a_list_that_changes_while_it_is_read():
    class Clears:
        def __index__(self) -> int:
            sizes.clear()
            return 2

    sizes: list[Any] = []
    for call in (fg.zeros, fg.ones(8).view, fg.ones(8).reshape, fg.Size):
        sizes[:] = [Clears(), 2, 2]
        assert call(sizes) is not None


def test_a_number_too_large_for_a_float():
    with pytest.raises(OverflowError, match=r"linspace\(\): argument 'end' is too large for a float"):
        fg.linspace(0, 2**1100, 3)


@pytest.mark.parametrize("function", [fg.signbit, fg.isposinf, fg.isneginf])
def test_complex_numbers_have_no_sign(function: Any):
    with pytest.raises(NotImplementedError, match="is not supported for complex inputs"):
        function(fg.ones(2, dtype=fg.complex64))
