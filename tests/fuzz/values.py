"""Values to hand in, as texts of Python: those that a parameter's name asks for, and those that nobody expects."""

from __future__ import annotations

import random

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "True", "False", "2**31", "2**31 - 1", "-2**31", "2**32", "2**62", "2**63 - 1",
    "2**63", "2**64", "2**64 + 3", "-2**63", "-2**63 - 1", "10**30", "-10**30", "0.0", "-0.0", "0.5", "2.0", "2.5",
    "-1.5", "1e30", "1e300", "1e-300", "float('nan')", "float('inf')", "-float('inf')", "1j", "np.float64(2)",
    "np.float32(0.5)", "np.int64(2)", "np.int64(-2**63)", "np.uint8(255)", "np.bool_(True)", "np.float16(1)",
    "np.longdouble(1)", "np.complex64(1j)", "np.datetime64('nat')",
)  # fmt: skip

PLAIN = (
    "None", "...", "NotImplemented", "()", "[]", "{}", "set()", "''", "'x'", "'mean'", "'cpu'", "'cuda'", "b'x'",
    "bytearray(8)", "memoryview(b'abcd')", "object()", "int", "float", "str", "type", "Exception", "print", "len",
    "(lambda *a: None)", "(lambda *a, **k: 1 / 0)", "range(3)", "range(0)", "slice(None)", "slice(0, 2)",
    "slice(None, None, -1)", "slice(2**70)", "iter([1, 2])", "(k for k in (1, 2))", "(1, 2)", "(2, 3)", "[2, 3]",
    "(0, 0)", "(-1,)", "(-1, -1)", "(0, 1, 2)", "(1.5, 2)", "(None, 1)", "('a', 'b')", "(2**40, 2**40)",
    "(2**64 + 3, 1)", "(1,) * 9", "(1,) * 17", "(2,) * 70", "(1,) * 1000", "[[1, 2], [3]]", "[None]", "[()]", "[[], []]",
    "{'a': 1}", "{1: 2}", "{'x': None}", "fg", "np", "fg.float32", "fg.int64", "fg.bool", "np.float32", "fg.Tensor",
    "fg.nn.Linear(3, 3)", "fg.nn.Linear", "fg.device('cpu')", "fg.Size((2, 3))", "fg.default_generator",
    "threading.Lock()", "Path('x')", "io.BytesIO(b'abc')", "contextlib.nullcontext()",
)  # fmt: skip

LIES = (
    "LongTuple((1, 2))", "LongTuple((fg.ones(2, 3), None))", "ShortTuple((1, 2))", "ShortTuple((fg.ones(2, 3),))",
    "OtherTuple((1, 2))", "OtherTuple((fg.ones(2, 3),))", "RaisingTuple((1, 2))", "RaisingTuple((fg.ones(2, 3),))",
    "LongList([1, 2])", "LyingDict(a=1)", "Index(1)", "Index(2**70)", "Index('x')", "Index(Mine('index'))",
    "Index(fg.tensor(1))", "LyingInt(1)", "LyingFloat(0.5)", "LyingStr('dim')", "Hostile()", "AnyAttribute()",
    "LyingArray()", "Growing([1])", "self_containing()", "deeply_nested()", "type('T', (), {})()",
)  # fmt: skip

ARRAYS = (
    "np.ones((2, 3))", "np.ones((2, 3), np.float32)", "np.ones(0)", "np.array(1.0)", "np.ones((2, 3), np.float16)",
    "np.array([None, 'a'])", "np.array(['a', 'b'])", "np.ones(3, '>f4')", "np.ones((4, 6))[::2, ::-2]",
    "np.zeros(2, [('a', 'f4'), ('b', 'i4')])", "np.ones((1,) * 20)", "np.arange(3)", "frozen_array()",
    "np.broadcast_to(np.float32(1), (2**20, 2**20))", "np.ma.masked_array([1.0, 2.0])", "np.ones(2, complex)",
)  # fmt: skip

TENSORS = (
    "fg.ones(2, 3)", "fg.ones(2, 3, requires_grad=True)", "fg.ones(2, 3, requires_grad=True).exp()",
    "fg.rand(3)", "fg.rand(3, 3)", "fg.rand(2, 3, 4)", "fg.rand(1, 2, 4, 4)", "fg.ones(3, 3, requires_grad=True)",
)  # fmt: skip

ODD_TENSORS = (
    "fg.ones(())", "fg.tensor(2)", "fg.tensor(True)", "fg.ones(0)", "fg.ones(0, 3)", "fg.ones(2, 0, 3)", "fg.ones(5)",
    "fg.ones(7, 7)", "fg.ones((1,) * 8)", "fg.tensor([0, 1])", "fg.tensor([[0, 2], [1, 0]])", "fg.tensor([-1])",
    "fg.tensor([2**62])", "fg.tensor([100, -100])", "fg.tensor([True, False, True])", "fg.ones(2, 3) > 0",
    "fg.ones(2, 3, dtype=fg.float64)", "fg.ones(2, 3, dtype=fg.int32)", "fg.ones(2, 3, dtype=fg.uint8)",
    "fg.ones(2, 3, dtype=fg.float64, requires_grad=True)", "fg.tensor(float('nan'))", "fg.tensor([float('inf')] * 3)",
    "fg.ones(3, 2).t()", "fg.ones(1).expand(2, 3)", "fg.ones(4, 6)[::2, ::2]", "fg.ones(3)[None]", "fg.ones(6)[1:4]",
    "fg.ones(1).expand(2**20, 2**13)", "fg.ones(0).expand(2**40, 0)", "inference_tensor()", "released()", "hooked()",
    "fg.ones(2, 3, requires_grad=True).detach()", "fg.ones(2, 3, requires_grad=True).view(-1)",
    "fg.ones(2, 3, requires_grad=True).unbind(0)[0]", "fg.from_numpy(np.ones((2, 3), np.float32))",
    "fg.nn.Parameter(fg.ones(2, 3))", "SubTensor([[1.0, 2, 3], [4, 5, 6]])", "Finalized([1.0, 2, 3])",
    "Slotted([1.0, 2, 3])", "Blind([1.0, 2, 3])", "Contrary([1.0, 2, 3])", "object.__new__(fg.Tensor)",
    "object.__new__(SubTensor)", "fg.Tensor.__new__(fg.Tensor)", "fg.Tensor.__new__(SubTensor, [1.0])",
    "fg.Tensor.__new__(dict, [1.0])", "fg.nn.Parameter.__new__(int)", "type(fg.ones(1)).__mro__[1].__new__(fg.Tensor)",
    "copy.copy(fg.ones(2, 3))", "pickle.loads(pickle.dumps(fg.ones(2, 3)))", "Twice.apply(fg.ones(2, 3, "
    "requires_grad=True))",
)  # fmt: skip

NODES = (
    "gone_node()", "fg.ones(2, requires_grad=True).exp().grad_fn", "released().grad_fn",
    "object.__new__(graph.Node)", "gone_node().next_functions[0][0].next_functions[0][0]",
    "Twice.apply(fg.ones(2, requires_grad=True)).grad_fn",
    "graph.get_gradient_edge(fg.ones(2, requires_grad=True))",
)  # fmt: skip

LISTS = (
    "[fg.ones(2, 3), fg.ones(2, 3)]", "[fg.ones(2, 3), None]", "(fg.ones(2, 3), 1.0)", "[fg.ones(2, requires_grad=True)]",
    "[fg.ones(2), fg.ones(3)]", "[[fg.ones(2)], fg.ones(2)]", "(fg.tensor([0, 1]), fg.tensor([0]))",
    "[fg.ones(2, 3)] * 100", "{'x': fg.ones(2, 3)}", "iter([fg.ones(2, 3)])", "[object.__new__(fg.Tensor)]",
)  # fmt: skip

ALL = (*NUMBERS, *PLAIN, *LIES, *ARRAYS, *TENSORS, *ODD_TENSORS, *NODES, *LISTS)

# What the parameters of these names usually take. A name that is not here gets a tensor or a small number.
_TYPICAL: dict[str, tuple[str, ...]] = {
    "input other self tensor source end weight target mat1 mat2 tensor1 x1 x2 a b query key value grad vec": TENSORS,
    "tensors inputs outputs parameters params": ("[fg.ones(2, 3, requires_grad=True)]", "[fg.ones(2, 3), fg.ones(2, 3)]"),
    "dim dim0 dim1 start_dim end_dim axis source destination": ("0", "1", "-1", "-2", "2", "None", "(0, 1)"),
    "dims shifts": ("0", "(0,)", "(1, 0)", "(0, 1)"),
    "size shape sizes normalized_shape output_size repeats": ("(2, 3)", "(3,)", "(6,)", "2", "3", "(-1,)", "[3, 2]"),
    "index indices mask condition": ("fg.tensor([0, 1])", "fg.tensor([[0, 1, 0]])", "fg.ones(2, 3) > 0", "1"),
    "dtype type": ("fg.float32", "fg.float64", "fg.int64", "fg.bool", "None"),
    "device": ("'cpu'", "None", "fg.device('cpu')"),
    "requires_grad keepdim bias inplace training sorted largest descending retain_graph create_graph affine "
    "batch_first bidirectional": ("True", "False"),
    "reduction": ("'mean'", "'sum'", "'none'"),
    "hook fn function func callback lr_lambda collate_fn": ("(lambda *a: None)", "print", "(lambda *a: a[0])"),
    "padding stride dilation groups output_padding": ("0", "1", "2", "(1, 1)", "'same'"),
    "kernel_size": ("1", "2", "3", "(2, 2)"),
    "in_features out_features in_channels out_channels num_features num_channels hidden_size input_size "
    "embedding_dim num_embeddings num_classes embed_dim d_model dim_feedforward": ("1", "2", "3", "4"),
    "n num_heads nhead num_layers num_groups chunks split_size split_size_or_sections k steps step_size": ("1", "2", "3"),
    "p dropout eps alpha beta lr momentum weight_decay std mean low high min max": ("0.5", "0.1", "0", "1.0", "None"),
    "betas": ("(0.9, 0.99)",),
    "optimizer": ("fg.optim.SGD([fg.ones(2, requires_grad=True)], lr=0.1)",),
    "module model": ("fg.nn.Linear(3, 3)", "fg.nn.ReLU()"),
    "gradient grad_outputs grad_tensors": ("None", "fg.ones(2, 3)", "[fg.ones(2, 3)]"),
    "name": ("'weight'", "'x'"),
    "state_dict": ("{}", "fg.nn.Linear(3, 3).state_dict()"),
    "f": ("io.BytesIO()", "io.BytesIO(b'PK')"),
    "dataset": ("[1, 2, 3]", "fg.utils.data.TensorDataset(fg.ones(3, 2))"),
    "generator": ("None", "fg.Generator()"),
    "approximate": ("'none'", "'tanh'"),
}  # fmt: skip
TYPICAL = {name: texts for names, texts in _TYPICAL.items() for name in names.split()}
_UNKNOWN = ("fg.ones(2, 3)", "fg.ones(2, 3, requires_grad=True)", "1", "2", "0.5", "None", "(2, 3)")


def typical(rng: random.Random, name: str) -> str:
    """A value that a parameter of this name may well take."""
    return rng.choice(TYPICAL.get(name, _UNKNOWN))


def usual(name: str) -> str:
    """The most ordinary value for a parameter of this name."""
    return TYPICAL.get(name, _UNKNOWN)[0]


def hostile(rng: random.Random) -> str:
    """A value of any kind."""
    kinds = (NUMBERS, PLAIN, LIES, ARRAYS, TENSORS, ODD_TENSORS, NODES, LISTS)
    return rng.choice(rng.choices(kinds, (5, 5, 4, 2, 2, 6, 1, 2))[0])


def tensor(rng: random.Random) -> str:
    """A tensor, more often than not an ordinary one."""
    return rng.choice(TENSORS if rng.random() < 0.6 else ODD_TENSORS)
