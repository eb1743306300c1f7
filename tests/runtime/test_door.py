"""What reaches compiled code is checked before it runs: operands, objects without records, handles, indices."""

from __future__ import annotations

from typing import Any

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.build.loader import NodeBase, TensorBase, rt
from fastgrad.native.contracts.integers import steps_of
from fastgrad.native.contracts.limits import MAX_OPS
from fastgrad.native.host.tables import BY_NAME
from tests.runtime.test_safety import run_program


def leaf() -> Any:
    return fg.ones(2, requires_grad=True)


# --- operands --------------------------------------------------------------------------------------------------

# What is called, and what the TypeError says: in PyTorch's words where it has some for the call.
MISSING: dict[str, tuple[Any, str]] = {
    "relu": (lambda x: F.relu(None), r"relu\(\): argument 'input' \(position 1\) must be Tensor, not NoneType"),
    "exp of text": (lambda x: fg.exp("a"), r"exp\(\): argument 'input' \(position 1\) must be Tensor, not str"),
    "add": (lambda x: fg.add(x, None), r"add\(\): argument 'other' \(position 2\) must be Tensor, not NoneType"),
    "add, first": (lambda x: fg.add(None, x), r"add\(\): argument 'input' \(position 1\) must be Tensor, not NoneType"),
    "sub of text": (lambda x: fg.sub(x, "a"), r"sub\(\): argument 'other' \(position 2\) must be Tensor, not str"),
    "mul": (lambda x: fg.mul(None, None), r"mul\(\): argument 'input' \(position 1\) must be Tensor, not NoneType"),
    "mul_": (lambda x: x.mul_(None), r"mul_\(\): argument 'other' \(position 1\) must be Tensor, not NoneType"),
    "mul_, nothing": (lambda x: x.mul_(), r"mul_\(\) missing 1 required positional argument: 'other'"),
    "exp_": (lambda x: fg.Tensor.exp_(None), "descriptor 'exp_' for .* doesn't apply to a 'NoneType' object"),
    "view": (lambda x: fg.Tensor.view(None, 2), r"view\(\): argument 'input' \(position 1\) must be Tensor"),
    "pow": (lambda x: x.pow(None), r"pow\(\): argument 'exponent' \(position 2\) must be Tensor or Number"),
    "maximum": (lambda x: fg.maximum(x, None), r"maximum\(\): argument 'other' \(position 2\) must be Tensor"),
    "mm": (lambda x: fg.mm(x, None), r"mm\(\): argument 'mat2' \(position 2\) must be Tensor, not NoneType"),
    "linear": (lambda x: F.linear(x, None), r"linear\(\): argument 'weight' \(position 2\) must be Tensor"),
    "bias": (
        lambda x: F.linear(fg.ones(2, 2), fg.ones(2, 2), 5), r"linear\(\): argument 'bias' \(position 3\) must be",
    ),
    "where": (lambda x: fg.where(x > 0, x, None), r"where\(\): argument 'other' \(position 3\) must be"),
    "where, two": (lambda x: fg.where(x > 0, 1.0), r"where\(\): argument 'other' \(position 3\) must be"),
    "where, input": (lambda x: fg.where(x > 0, None, x), r"where\(\): argument 'input' \(position 2\) must be"),
    "gather": (lambda x: fg.gather(x, 0, None), r"gather\(\): argument 'index' \(position 3\) must be Tensor"),
    "scatter": (lambda x: fg.scatter_add(x, 0, fg.tensor([0]), None), r"argument 'src' \(position 4\)"),
    "cat": (lambda x: fg.cat([x, None]), "expected Tensor as element 1 in argument 0, but got NoneType"),
    "layer norm": (lambda x: F.layer_norm(x, (2,), 3), r"layer_norm\(\): argument 'weight' \(position 3\) must be"),
    "a forward that forgot to return": (lambda x: fg.nn.ReLU()(None), r"relu\(\): argument 'input' \(position 1\)"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISSING)
def test_a_missing_operand_is_named(what: str):
    call, message = MISSING[what]
    with pytest.raises(TypeError, match=message):
        call(leaf())


@pytest.mark.parity
@pytest.mark.parametrize("call", [
    lambda lib, x: lib.relu(None), lambda lib, x: lib.add(x, None), lambda lib, x: lib.add(None, x),
    lambda lib, x: lib.mul(x, "a"), lambda lib, x: lib.exp(3.0), lambda lib, x: lib.maximum(x, None),
    lambda lib, x: lib.nn.functional.gelu(None), lambda lib, x: lib.nn.functional.linear(x, None),
    lambda lib, x: lib.gather(x, 0, None), lambda lib, x: lib.softmax(None, 0), lambda lib, x: lib.mm(x, None),
    lambda lib, x: x.mul_(None), lambda lib, x: x.copy_(None), lambda lib, x: lib.addmm(None, None, None),
    lambda lib, x: lib.matmul(x, None), lambda lib, x: lib.outer(x, None), lambda lib, x: lib.cat(None),
])  # fmt: skip
def test_the_words_are_those_of_torch(call: Any):
    torch = pytest.importorskip("torch")
    said = []
    for lib in (torch, fg):
        with pytest.raises(TypeError) as raised:
            call(lib, lib.ones(2))
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_where_with_a_condition_alone_gives_places():
    places = fg.where(fg.tensor([[True, False], [True, True]]))
    assert [p.tolist() for p in places] == [[0, 1, 1], [0, 0, 1]]


def test_optional_operands_may_be_left_out_or_none():
    image, weight = fg.ones(1, 1, 3), fg.ones(1, 1, 2)
    assert F.conv1d(image, weight, None).tolist() == [[[2.0, 2.0]]]
    assert F.layer_norm(leaf(), (2,), None, fg.ones(2)).tolist() == [1.0, 1.0]


NUMBER = {name: op.id for name, op in BY_NAME.items()}
CALLS: dict[str, Any] = {
    "nothing": lambda x: rt.apply(),
    "too little": lambda x: rt.apply(NUMBER["exp"], 1),
    "no number of an op": lambda x: rt.apply("exp", 1, 0, x),
    "no numbers, but what Python code reads as one": lambda x: rt.apply("exp", x, x),
    "a number of no op": lambda x: rt.apply(100_000, 1, 0, x),
    "a free row of the table": lambda x: rt.apply(MAX_OPS - 1, 1, 0, x),
    "a negative number": lambda x: rt.apply(-1, 1, 0, x),
    "an op that is not called": lambda x: rt.apply(NUMBER["accumulate_grad"], 1, 0, x),
    "no operand": lambda x: rt.apply(NUMBER["exp"], 0, 0),
    "one operand of two": lambda x: rt.apply(NUMBER["mul"], 1, 0, x),
    "two operands of one": lambda x: rt.apply(NUMBER["exp"], 2, 0, x, x),
    "fewer arguments than it says": lambda x: rt.apply(NUMBER["mul"], 2, 0, x),
    "more operands than memory": lambda x: rt.apply(NUMBER["cat"], 1 << 62, 0, x),
    "a negative number of operands": lambda x: rt.apply(NUMBER["cat"], -1, 0, x),
    "None in a list": lambda x: rt.apply(NUMBER["cat"], 2, 0, x, None, 0),
    "a missing integer": lambda x: rt.apply(NUMBER["transpose"], 1, 0, x, 0),
    "a surplus integer": lambda x: rt.apply(NUMBER["exp"], 1, 0, x, 0),
    "no integer": lambda x: rt.apply(NUMBER["transpose"], 1, 0, x, 0, "a"),
    "several outputs of an op with one": lambda x: rt.apply(NUMBER["exp"], 1, 5, x),
    "other outputs than lengths": lambda x: rt.apply(NUMBER["split"], 1, 3, x, 0, 1, 1),
    "views that are not counted": lambda x: rt.apply(NUMBER["unbind"], 1, 0, x, 0),
    "a dtype that is none": lambda x: rt.apply(NUMBER["cast"], 1, 0, x, 200),
    "a memory format that is none": lambda x: rt.apply(NUMBER["clone"], 1, 0, x, 9),
    "fewer sizes than their number": lambda x: rt.apply(NUMBER["zeros_of"], 1, 0, x, 3, 2, 2),
    "more sizes than dimensions": lambda x: rt.apply(NUMBER["sum_to"], 1, 0, x, 1 << 40, 2),
    "a negative number of sizes": lambda x: rt.apply(NUMBER["restore_reduced"], 1, 0, x, -2, 1),
    "a negative size": lambda x: rt.apply(NUMBER["zeros_of"], 1, 0, x, 2, 2, -2),
    "a negative stride": lambda x: rt.apply(NUMBER["as_strided"], 1, 0, x, 1, 2, -1, 0, 1, 1),
    "a part without the strides of its base": lambda x: rt.apply(NUMBER["take_strided"], 1, 0, x, 1, 2, 1, 0),
    "lengths of fewer operands": lambda x: rt.apply(NUMBER["cat"], 2, 0, x, x, 0, 2),
    "padding without sizes": lambda x: rt.apply(NUMBER["pad"], 1, 0, x, 0, 0, 0, 1, -1),
    "a view in place": lambda x: rt.apply(NUMBER["view"], 1, -1, x, 2),
    "a product of matrices in place": lambda x: rt.apply(NUMBER["mm"], 2, -1, x, x),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_does_not_fit_the_table_is_refused(what: str):
    with pytest.raises(TypeError):
        CALLS[what](leaf())


I = fg.tensor([0])
MISFITS: dict[str, Any] = {
    "sizes that are no sum's": lambda x: rt.apply(NUMBER["sum_to"], 1, 0, x, 1, 5),
    "dimensions that it has not": lambda x: rt.apply(NUMBER["expand_reduced"], 1, 0, x, 1, 2, 7),
    "a base of another rank": lambda x: rt.apply(NUMBER["zero_strided"], 1, 0, x, 1, 2, 1, 0, 2, 2, 1),
    "a part beyond its base": lambda x: rt.apply(NUMBER["take_strided"], 1, 0, x, 1, 2, 1, 1 << 50, 1, 1),
    "no gradient at all": lambda x: rt.apply(NUMBER["unbind_backward"], 2, 0, None, None, 0, 1, 2),
    "a padding that is none": lambda x: rt.apply(NUMBER["pad"], 1, 0, x, 9, 0, 0, 1, 1, 1, 4),
    "a missing parameter": lambda x: rt.apply(NUMBER["sgd_step"], 1, 0, x.detach(), 2, 0, 0, 0, 0, 0),
    "a place that a group has not": lambda x: rt.apply(NUMBER["clip"], 2, 0, x.detach(), x.detach(), 3, 0),
    "an index beyond the last dimension": lambda x: rt.apply(
        NUMBER["index_put_"], 3, 0, x.detach(), fg.ones(3), I, (1 << 63) - 1, 0, 0
    ),
    "a gradient of other sizes than the part": lambda x: rt.apply(
        NUMBER["select_backward"], 1, 0, x, 0, 0, 2, 3, 1 << 20
    ),
    "gradients of other sizes than the parts": lambda x: rt.apply(
        NUMBER["split_backward"], 2, 0, x, x, 0, 2, 3, 1, 5
    ),
    "a window beyond its plane": lambda x: rt.apply(
        NUMBER["max_pool2d"], 1, 0, fg.ones(1, 1, 4), 1, 1 << 40, 1, 2, 0, 0, 1, 1, 0, 3, 1, 1, 2
    ),
    "more sequences than a batch has": lambda x: rt.apply(
        NUMBER["rnn_tanh"],
        3,
        0,
        fg.ones(1, 2, 2),
        fg.ones(2, 2),
        fg.ones(1, 2, 32),
        1,
        2,
        2,
        9,
        0,
        2,
        0,
        32,
        -1,
    ),
    "more rows than are normalised": lambda x: rt.apply(
        NUMBER["layer_norm_gradients"], 5, 0, x, x, x, fg.ones(1), fg.ones(1), 0, 1 << 40, 1, 3, 1, 0
    ),
    "a missing index": lambda x: rt.apply(NUMBER["index"], 4, 0, x, I, None, I, 0, 0),
}


@pytest.mark.parametrize("what", MISFITS)
def test_a_call_whose_integers_do_not_fit_its_operands_is_refused(what: str):
    with pytest.raises(
        (RuntimeError, IndexError), match=r"do not fit|out of range|beyond the 8 bytes|at the dimension"
    ):
        MISFITS[what](leaf())


def test_integers_that_an_op_cannot_declare():
    with pytest.raises(ValueError, match="unchecked ones last"):
        steps_of(("*rest", "dtype"))


def test_calls_of_any_length():
    parts = [fg.full((1,), float(k)) for k in range(300)]
    assert fg.cat(parts).tolist() == [float(k) for k in range(300)]
    assert [float(p) for p in fg.cat(parts).unbind()] == [float(k) for k in range(300)]


# --- objects without a record ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: object.__new__(fg.Tensor), lambda: TensorBase(), lambda: TensorBase.__new__(fg.Tensor),
    lambda: TensorBase.__new__(fg.nn.Parameter), lambda: type("Sub", (TensorBase,), {})(),
    lambda: object.__new__(type(fg.ones(1, requires_grad=True).exp().grad_fn)), lambda: NodeBase.__new__(NodeBase),
    lambda: fg.Tensor.__new__(dict, [1.0]), lambda: fg.Tensor.__new__(object), lambda: fg.Tensor.__new__(5),
    lambda: fg.nn.Parameter.__new__(int, fg.ones(1)), lambda: fg.nn.Parameter.__new__(NodeBase, fg.ones(1)),
    lambda: rt.adopt(int, fg.ones(1)), lambda: rt.adopt(fg.Tensor, 3), lambda: rt.adopt(fg.ones(1), fg.ones(1)),
])  # fmt: skip
def test_no_object_is_made_without_a_record(make: Any):
    with pytest.raises(TypeError):
        make()


def test_subclasses_are_made_by_way_of_tensor():
    class Sub(fg.Tensor):
        pass

    made = Sub([1.0, 2.0])
    assert type(made) is Sub
    assert (made * 2).tolist() == [2.0, 4.0]
    assert type(fg.nn.Parameter(made)) is Sub


def without_record() -> Any:
    """A tensor whose record another object has taken over, as it is for a moment while a subclass is made."""
    tensor = fg.ones(2)
    rt.adopt(fg.Tensor, tensor)
    return tensor


USES: dict[str, Any] = {
    "-": lambda t: -t, "~": lambda t: ~t, "abs": abs, "+": lambda t: t + t, "+ 1.0": lambda t: t + 1.0,
    "1.0 +": lambda t: 1.0 + t, "2 /": lambda t: 2 / t, "+ tensor": lambda t: fg.ones(2) + t, "<": lambda t: t < 1,
    "+=": lambda t: t.__iadd__(1), "@": lambda t: t @ t, "**": lambda t: t**2, "[0]": lambda t: t[0],
    "exp": fg.exp, "exp_": lambda t: t.exp_(), "shape": lambda t: t.shape, "grad": lambda t: t.grad,
    "grad = ": lambda t: setattr(fg.ones(2), "grad", t), "data =": lambda t: setattr(fg.ones(2), "data", t),
    "backward": lambda t: t.backward(), "cat": lambda t: fg.cat([t, t]), "item": lambda t: t.item(),
    "gradient": lambda t: fg.ones(2, requires_grad=True).exp().backward(t),
}  # fmt: skip


@pytest.mark.parametrize("what", USES)
def test_an_object_without_a_record_is_refused(what: str):
    gone = without_record()
    with pytest.raises(TypeError, match=r"never made|is gone"):
        USES[what](gone)
    assert isinstance(hash(gone), int)


def test_hooks_and_functions_may_not_give_an_object_without_a_record():
    gone, x = without_record(), leaf()

    class Gives(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return gone

        @staticmethod
        def backward(ctx, g):
            return gone

    class Backward(Gives):
        forward = staticmethod(lambda ctx, x: x.detach() * 2)

    y = x * 2
    y.register_hook(lambda g: gone)
    z = x * 2
    z.grad_fn.register_prehook(lambda g: (gone,))
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: gone):
        w = x * x
    for call in (
        lambda: Gives.apply(x), lambda: Backward.apply(x).sum().backward(), lambda: y.sum().backward(),
        lambda: z.sum().backward(), lambda: w.sum().backward(),
    ):  # fmt: skip
        with pytest.raises((TypeError, RuntimeError)):
            call()


# --- every public name with arguments that it does not expect --------------------------------------------------

NAMES = """
import inspect, sys, types, warnings, importlib
import fastgrad as fg, fastgrad.nn.functional as F

warnings.simplefilter("ignore")
OWNER = {owner!r}
LEFT_OUT = {{"warmup", "save", "load", "save_file", "set_memory_limit", "environment", "set_printoptions", "demo"}}

def owner():
    found = fg
    for part in OWNER.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{{found.__name__}}.{{part}}")
    return found

def leaf():
    return fg.ones(2, requires_grad=True)

def arguments():
    x, m = fg.ones(2), fg.ones(2, 2)
    sets = [(), (None,), (None, None), (None, None, None), (x,), (x, None), (None, x), (x, None, None), (x, x),
            (x, x, None), (x > 0,), (x > 0, 1.0), (m, None), (m, m, None), (m, 0, None), ("a",), (x, "a"), ([],),
            ([None],), ([x, None],), (5,), (x, 5), (x, object()), (leaf(),), (leaf(), None), (leaf().exp(), [x, None]),
            (int,), (x, x, x, None)]
    return sets

found = owner()
listed = getattr(found, "__all__", None) or [n for n in dir(found) if not n.startswith("__")]
tried = 0
for name in sorted(set(listed) - LEFT_OUT):
    value = inspect.getattr_static(found, name) if isinstance(found, type) else getattr(found, name)
    call = getattr(found, name, None)
    if isinstance(value, types.ModuleType) or not callable(call):
        continue
    for given in arguments():
        print(f"{{OWNER}}.{{name}}({{given}})"[:300], file=sys.stdout, flush=True)
        tried += 1
        try:
            result = call(*given)
            if hasattr(result, "remove"):
                result.remove()
            repr(result)
        except SystemError:
            raise
        except (Exception, SystemExit):
            pass
a = leaf()
(a * a).sum().backward()
assert a.grad.tolist() == [2.0, 2.0]
assert tried > 20, tried
"""


@pytest.mark.slow
@pytest.mark.parametrize("owner", [
    "fg", "fg.Tensor", "fg.nn.functional", "fg.autograd", "fg.autograd.graph", "fg.nn", "fg.nn.init", "fg.nn.utils",
    "fg.linalg", "fg.optim", "fg.utils.data", "fg.autograd.Function", "fg.autograd.graph.Node", "fg.utils.checkpoint",
    "fg.random",
])  # fmt: skip
def test_no_public_name_crashes(owner: str):
    done = run_program(NAMES.format(owner=owner))
    assert done.returncode == 0, done.stdout.rpartition("\n")[0].rpartition("\n")[2] + done.stderr[-2000:]
