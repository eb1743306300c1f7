"""Small functions that libraries take from within PyTorch: they give what PyTorch's give."""

from __future__ import annotations

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from alias_running import under_alias

import fastgrad as fg
from fastgrad.as_torch.overlay import _C, ops
from fastgrad.as_torch.overlay.nn import _reduction
from fastgrad.as_torch.overlay.utils import _pytree, dlpack
from fastgrad.ops import namespaces

Pair = namedtuple("Pair", "a b")
TREES = [
    3, None, [], (), {}, [1, (2, None)], {"b": 1, "a": [2, {"c": 3}]}, Pair(1, [2]), OrderedDict(x=1, y=(2,)),
    defaultdict(list, {"k": 1}), deque([1, 2], maxlen=4), [Pair([], ()), {"z": deque()}],
]  # fmt: skip
SPECIAL = {"is_leaf": lambda value: isinstance(value, tuple)}


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return importlib.import_module("torch.utils._pytree")


@pytest.mark.parity
@pytest.mark.parametrize("tree", TREES, ids=repr)
@pytest.mark.parametrize("options", [{}, SPECIAL], ids=["plain", "is_leaf"])
def test_trees_are_taken_apart_and_put_together(tree, options, theirs):
    leaves, spec = _pytree.tree_flatten(tree, **options)
    expected, other = theirs.tree_flatten(tree, **options)
    assert leaves == expected == _pytree.tree_leaves(tree, **options)
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (
        other.num_nodes,
        other.num_leaves,
        other.num_children,
    )
    again = _pytree.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec == _pytree.tree_structure(again, **options)
    mapped = _pytree.tree_map(lambda leaf: [leaf], tree, **options)
    assert mapped == theirs.tree_map(lambda leaf: [leaf], tree, **options)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("tree", "onto"), [(1, [1, 2]), ([1, 2], [3, (4, 5)]), ([1], [1, 2]), ({"a": 1}, [1])]
)
def test_trees_spread_over_others(tree, onto, theirs):
    mine = _pytree._broadcast_to_and_flatten(tree, _pytree.tree_structure(onto))
    assert mine == theirs._broadcast_to_and_flatten(tree, theirs.tree_structure(onto))


@pytest.mark.parity
@pytest.mark.parametrize(
    ("first", "second"), [([1, 2], [1]), ([1], (1,)), ({"a": 1}, {"b": 1}), (Pair(1, 2), (1, 2)), ([1], 1)]
)
def test_trees_that_are_built_otherwise(first, second, theirs):
    for module in (_pytree, theirs):
        with pytest.raises(ValueError, match=r"."):
            module.tree_map(lambda a, b: (a, b), first, second)


def test_more_about_trees():
    assert _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": 2}, {"y": 10, "x": 20}) == {"x": 21, "y": 12}
    assert _pytree.tree_map(lambda a, b: (a, b), [1], [[2, 3]]) == [(1, [2, 3])]
    assert _pytree.tree_all(lambda leaf: leaf > 0, [1, (2,)])
    assert _pytree.tree_any_only(int, lambda leaf: leaf > 1, ["a", 2])
    assert _pytree.tree_all_only(int, lambda leaf: leaf > 1, ["a", 2])
    assert _pytree.tree_map_only(lambda leaf: leaf == 1, str, [1, 2]) == ["1", 2]
    x = fg.zeros(2)
    assert _pytree.tree_map_only_(fg.Tensor, lambda leaf: leaf.add_(1), [x, 3]) == [x, 3]
    assert x.tolist() == [1, 1]
    assert _pytree.LeafSpec().is_leaf()
    with pytest.raises(TypeError, match="TreeSpec"):
        _pytree.tree_unflatten([1], None)
    with pytest.raises(ValueError, match="holds 2 items"):
        _pytree.tree_unflatten([1], _pytree.tree_structure([1, 2]))


class Box:
    def __init__(self, inside):
        self.inside = inside


def test_classes_become_containers():
    _pytree.register_pytree_node(Box, lambda box: ([box.inside], None), lambda children, _: Box(*children))
    try:
        assert _pytree.tree_leaves([Box((1, 2)), 3]) == [1, 2, 3]
        assert _pytree.tree_map(str, Box([1])).inside == ["1"]
        with pytest.raises(ValueError, match="already registered"):
            _pytree.register_pytree_node(Box, None, None)
    finally:
        _pytree._deregister_pytree_node(Box)
    box = Box(1)
    assert _pytree.tree_leaves(box) == [box]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_reductions_of_old():
    theirs = pytest.importorskip("torch").nn._reduction
    for name in ("none", "mean", "sum", "elementwise_mean"):
        assert _reduction.get_enum(name) == theirs.get_enum(name)
    for module in (_reduction, theirs):
        with pytest.raises(ValueError, match="is not a valid value for reduction"):
            module.get_enum("avg")
    for average in (None, True, False):
        for reduce in (None, True, False):
            assert _reduction.legacy_get_string(average, reduce) == theirs.legacy_get_string(average, reduce)
            assert _reduction.legacy_get_enum(average, reduce) == theirs.legacy_get_enum(average, reduce)


def test_capsules():
    x = fg.arange(3.0)
    y = dlpack.from_dlpack(dlpack.to_dlpack(x))
    y[0] = 5
    assert x.tolist() == [5, 1, 2]
    for wrong in (None, 3, [1.0]):
        with pytest.raises(TypeError):
            dlpack.to_dlpack(wrong)


def test_keys_of_the_dispatcher():
    cpu, cuda = (_C.DispatchKeySet(key) for key in (_C.DispatchKey.AutocastCPU, _C.DispatchKey.AutocastCUDA))
    both = cpu | cuda
    assert both.has(_C.DispatchKey.AutocastCUDA)
    assert both - cuda == cpu == both & cpu == both.remove(_C.DispatchKey.AutocastCUDA)
    assert cpu.add(_C.DispatchKey.AutocastCUDA) == both
    assert repr(cpu) == "DispatchKeySet(AutocastCPU)"
    for wrong in (None, 1, "CPU"):
        with pytest.raises(TypeError):
            _C.DispatchKeySet(wrong)
    with pytest.raises(TypeError):
        cpu | 3


def test_fakes_wait_for_ops_of_a_library_that_was_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(namespaces, "refused", [])
    name = "library_test_refused::twice"
    with pytest.raises(RuntimeError, match="there is no op"):
        fg.library.register_fake(name, fg.empty_like)
    with pytest.raises(OSError, match="Could not load this library"):
        ops.load_library(tmp_path / "_C.so")
    fg.library.register_fake(name, fg.empty_like)
    library = fg.library.Library("library_test_refused", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    assert fg.ops.library_test_refused.twice._fake is fg.empty_like
    with pytest.raises(RuntimeError, match="there is no op"):
        fg.library.register_autograd("library_test_refused::other", lambda ctx, grad: grad)


def test_names_within_modules():
    under_alias("""
import torch, torch._dynamo, torch.onnx
from torch.distributions.utils import _standard_normal, _sum_rightmost
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.jit.annotations import BroadcastingList2, List
from torch._subclasses.fake_tensor import is_fake
from torch._dynamo.utils import is_compile_supported
from torch.onnx.symbolic_helper import parse_args
from torch.serialization import DEFAULT_PROTOCOL, MAP_LOCATION
from torch.utils.checkpoint import get_device_states, set_device_states
from torch.utils.data._utils.collate import np_str_obj_array_pattern
from torch.utils.model_zoo import load_url
import numpy, torch._custom_ops
assert torch.torch is torch and torch.torch.Tensor is torch.Tensor
assert load_url is torch.hub.load_state_dict_from_url and torch._custom_ops.get_ctx is torch.library.get_ctx
x = torch.arange(24.0).view(2, 3, 4)
assert _standard_normal((2, 3), torch.float64, "cpu").dtype is torch.float64
assert _sum_rightmost(x, 2).tolist() == [66.0, 210.0] and _sum_rightmost(x, 0) is x
for name in ("uniform", "normal"):
    assert 0 < getattr(torch.nn.init, f"_no_grad_{name}_")(torch.empty(200), 0.0, 1.0).std() < 2
assert torch.nn.init._no_grad_trunc_normal_(torch.empty(200), 0.0, 1.0, -1.0, 1.0).abs().max() <= 1
p = torch.nn.Parameter(torch.ones(2))
assert torch.nn.init._no_grad_fill_(p, 3.0) is p and p.tolist() == [3, 3]
assert torch.nn.init._no_grad_zero_(p) is p and p.tolist() == [0, 0] and p.is_leaf
assert get_proxy_mode() is None and not is_fake(x) and not is_compile_supported("cpu")
assert BroadcastingList2[int] == List[int] or BroadcastingList2[int] == list[int]
assert torch.distributed.ReduceOp.RedOpType is type(torch.distributed.ReduceOp.SUM)
assert DEFAULT_PROTOCOL == 2 and np_str_obj_array_pattern.search(numpy.dtype("U3").str)
assert not torch.onnx.is_in_onnx_export() and not hasattr(torch.onnx, "export")
torch.onnx.register_custom_op_symbolic("mine::op", lambda g: g, 11)
try:
    torch.onnx.register_custom_op_symbolic("mine", lambda g: g, 11)
except ValueError:
    pass
else:
    raise AssertionError
config = torch._dynamo.config
config.suppress_errors = True
assert config.suppress_errors is True and config.cache_size_limit == config.recompile_limit == 8
config.cache_size_limit = 64
with config.patch(recompile_limit=3, verbose=True), config.patch("suppress_errors", False):
    assert (config.cache_size_limit, config.verbose, config.suppress_errors) == (3, True, False)
assert (config.recompile_limit, config.verbose, config.suppress_errors) == (64, False, True)
assert not hasattr(config, "of_none") and "verbose" in dir(config)
config.traceable_tensor_subclasses.add(torch.nn.Parameter)
for wrong in (
    lambda: setattr(config, "of_none", 1), lambda: config.patch(of_none=1).__enter__(), lambda: config.of_none
):
    try:
        wrong()
    except AttributeError as error:
        assert str(error) == "torch._dynamo.config.of_none does not exist"
    else:
        raise AssertionError
torch._dynamo.reset()
assert not torch._dynamo.is_compiling()
assert not isinstance(torch.nn.Linear(1, 1), torch._dynamo.eval_frame.OptimizedModule)
assert torch.profiler.kineto_available() is False
assert torch.cuda._initialized is torch.cuda.is_initialized() and not hasattr(torch.cuda, '_other')
assert get_device_states(x, [x], {"a": x}) == ([], [])
set_device_states([], [])
@torch.jit.interface
class Like: pass
""")


def test_states_of_devices():
    from fastgrad.utils.checkpoint import set_device_states

    set_device_states([], [], device_type="cpu")
    with pytest.raises(ValueError, match="no devices of type"):
        set_device_states([], [], device_type="tpu")


def test_divergences_between_classes_of_a_library():
    class Theirs:
        """No `Distribution`, as in libraries that have their own."""

    kl = fg.distributions.kl
    kl.register_kl(fg.distributions.Normal, Theirs)(lambda p, q: "divergence")
    try:
        normal = fg.distributions.Normal(0.0, 1.0)
        assert fg.distributions.kl_divergence(normal, Theirs()) == "divergence"
    finally:
        del kl._REGISTRY[fg.distributions.Normal, Theirs]
        kl._FOUND.clear()
    for wrong in (None, 3, normal):
        with pytest.raises(TypeError):
            kl.register_kl(fg.distributions.Normal, wrong)


@pytest.mark.parity
def test_groups_of_tensors():
    theirs = importlib.import_module("torch.utils._foreach_utils")
    torch = pytest.importorskip("torch")
    mine = importlib.import_module("fastgrad.as_torch.overlay.utils._foreach_utils")

    def found(lib, module, **options):
        lists = [
            [lib.ones(1), lib.ones(2, dtype=lib.float64), lib.zeros(1)],
            [],
            [None, lib.ones(1), lib.ones(3)],
        ]
        groups = module._group_tensors_by_device_and_dtype(lists, **options)
        return {
            (str(device), str(dtype).rpartition(".")[2]): (
                [[None if x is None else x.tolist() for x in part] for part in lists],
                places,
            )
            for (device, dtype), (lists, places) in groups.items()
        }

    assert found(fg, mine, with_indices=True) == found(torch, theirs, with_indices=True)
    for lib, module in ((fg, mine), (torch, theirs)):
        with pytest.raises(RuntimeError, match="supposed to be defined"):
            module._group_tensors_by_device_and_dtype([[lib.ones(1), None]])
