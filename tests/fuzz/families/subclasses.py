"""Subclasses of the library's classes that answer every question in their own way."""

from __future__ import annotations

import random
import textwrap

from tests.fuzz import values
from tests.fuzz.scene import RESULTS, START, Scene

KINDS = {"op": 35, "register": 8, "in place": 14, "pass": 10, "look": 14, "drop": 8, "keep": 6, "call": 4}

BASES = (
    "fg.Tensor", "fg.Tensor", "fg.Tensor", "nn.Parameter", "Finalized", "Slotted", "type(fg.ones(1)).__mro__[1]",
    "fg.Tensor, Mine", "fg.Tensor, dict", "dict, fg.Tensor", "graph.Node", "type(gone_node()).__mro__[1]", "fg.Size",
    "nn.Module", "fg.optim.SGD", "fg.autograd.Function", "type(fg.ones(1, requires_grad=True).register_hook(print))",
    "nn.Buffer", "fg.Generator", "fg.device",
)  # fmt: skip

METHODS = (
    "__del__", "__del__", "__new__", "__init__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__",
    "__mul__", "__rmul__", "__add__", "__iadd__", "__bool__", "__eq__", "__hash__", "__len__", "__iter__", "__index__",
    "__float__", "__array__", "__deepcopy__", "__reduce_ex__", "__copy__", "__repr__", "__getitem__", "__setitem__",
    "__torch_function__", "__init_subclass__", "__class_getitem__", "__call__", "__enter__", "__exit__", "detach",
    "clone", "backward", "numel", "size", "view", "forward", "step", "requires_grad_", "register_hook", "__instancecheck__",
)  # fmt: skip

PROPERTIES = ("shape", "dtype", "grad", "grad_fn", "requires_grad", "data", "is_leaf", "_backward_hooks", "__class__",
              "__dict__", "_handle", "device", "next_functions", "_version")  # fmt: skip

SLOTS = ("__slots__ = ()", "__slots__ = ('x',)", "__slots__ = ('__weakref__',)", "__slots__ = ('__dict__',)")

MADE = (
    "{k}([1.0, 2, 3])", "{k}([[1.0, 2, 3], [4, 5, 6]])", "{k}()", "{k}.__new__({k})", "{k}.__new__({k}, [1.0])",
    "object.__new__({k})", "fg.Tensor.__new__({k}, [1.0, 2])", "{k}([1.0, 2]).requires_grad_()", "{k}({v})",
    "copy.copy({k}([1.0]))", "copy.deepcopy({k}([1.0]))", "pickle.loads(pickle.dumps({k}([1.0])))", "{k}(a)",
    "fg.Tensor.__new__({k})", "nn.Parameter({k}([1.0, 2]))", "{k}([a], lr=0.1)", "{k}.apply(a)", "super({k}, {k}([1.0])).exp()",
)  # fmt: skip


def subclass(scene: Scene) -> str:
    """The definition of a subclass with a few methods and properties."""
    rng = scene.rng
    lines = []
    if rng.random() < 0.25:
        lines.append(rng.choice(SLOTS))
    for name in rng.sample(METHODS, rng.choice((0, 1, 1, 2, 3))):
        results = (
            "args[0]",
            "None",
            "super().__new__(args[0])",
            "object.__getattribute__(*args)",
            values.hostile(rng),
        )
        lines.append(f"def {name}(*args, **kwargs):\n{scene.body((*results, *RESULTS))}")
    for name in rng.sample(PROPERTIES, rng.choice((0, 0, 0, 1, 2))):
        lines.append(
            f"{name} = property(lambda self: {scene.value()})"
            if rng.random() < 0.6
            else f"{name} = {scene.value()}"
        )
    name = scene.fresh("K")
    return f"class {name}({rng.choice(BASES)}):\n{textwrap.indent(chr(10).join(lines) or 'pass', '    ')}"


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS)
    steps = [*START, *scene.ops(1, 2), scene.callback()]
    kinds = []
    for _ in range(rng.randint(1, 2)):
        steps.append(subclass(scene))
        kinds.append(f"K{scene.made}")
        scene.classes.append(kinds[-1])
    for _ in range(rng.randint(6, 16)):
        if rng.random() > 0.4:
            steps.append(scene.statement())
            continue
        text = rng.choice((*MADE, "{t}.__class__ = {k}", "isinstance({t}, {k})", "use({k})"))
        made = text in MADE
        found = text.format(k=rng.choice(kinds), v=scene.value(), t=scene.tensor())
        name = scene.fresh("t")
        scene.tensors += [name] * made
        steps.append(f"{name} = {found}" if made else found)
    return [*steps, f"use({scene.tensor()})", "gc.collect()", "use(kept)"]
