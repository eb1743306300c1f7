"""Statements over tensors, nodes, handles and callbacks that have names, and callbacks made of such statements.

A `Scene` hands out statements by kind. The families choose the kinds and where callbacks are hung: in hooks, weak
references, destructors, threads, signal handlers. What a callback does is drawn from the same kinds.
"""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Mapping, Sequence
from string import Formatter

from tests.fuzz import values

START = (
    "a = fg.ones(2, 3, requires_grad=True)",
    "b = fg.full((2, 3), 2.0, requires_grad=True)",
    "c = fg.ones(3, requires_grad=True)",
    "d = fg.ones(2, 3)",
)

OPS = (
    "{t}.exp()", "-{t}", "{t} * 2", "{t} + {t}", "{t} * {u}", "{t} - {u}", "{t} / {u}", "{t} ** 2", "{t}.sum()",
    "{t}.mean(0)", "{t}.tanh()", "{t}.view(-1)", "{t}.reshape(3, 2)", "{t}.t()", "{t}[0]", "{t}[:, 1:]", "{t}.clone()",
    "{t}.detach()", "{t}.unbind(0)[0]", "{t}.expand(4, 2, 3)", "{t}.to(fg.float64)", "{t}.max(0)[0]", "{t} @ {u}.t()",
    "fg.cat([{t}, {u}])", "fg.stack([{t}, {u}])", "fg.where({t} > 1, {t}, {u})", "F.relu({t})", "{t}.softmax(-1)",
    "F.layer_norm({t}, (3,), c, c)", "F.linear({t}, {u}, None)", "{t}.sort()[0]", "{t}.cumsum(0)", "{t}.prod()",
    "F.batch_norm({t}, None, None, c, c, training=True)", "F.dropout({t}, 0.5)", "{t}.view_as({t})", "{t}.flip(0)",
    "F.mse_loss({t}, {u})", "F.cross_entropy({t}, fg.tensor([0, 2]))", "{t}.squeeze()", "{t}.narrow(0, 0, 1)",
    "copy.copy({t})", "copy.deepcopy({t})", "{t}.grad", "{t}.data", "{t}._base", "{t}.repeat(2, 1)", "{t}.norm()",
    "F.scaled_dot_product_attention({t}, {u}, {u})", "fg.einsum('ij,ij', {t}, {u})", "{t}.split(1)[1]",
    "SubTensor({t}.detach())", "nn.Parameter({t})", "Twice.apply({t})", "fg.from_numpy({t}.detach().numpy())",
)  # fmt: skip

IN_PLACE = (
    "{t}.mul_(2)", "{t}.add_({u})", "{t} += 1", "{t} *= {u}", "{t}[0] = 1.0", "{t}[0] = {u}[0]", "{t}.zero_()",
    "{t}.copy_({u})", "{t}.fill_(1.5)", "{t}.exp_()", "{t}.detach_()", "{t}.requires_grad_()", "{t}.relu_()",
    "{t}.requires_grad_(False)", "{t}.data = fg.ones(5)", "{t}.data = {u}", "{t}.data.mul_(0)", "{t}.set_(fg.ones(4))",
    "{t}.data = fg.ones(2, 3, dtype=fg.float64)", "{t}.view(-1)[0] += 1", "{t}.grad = None", "{t}.grad = {u}.detach()",
    "{t}.grad = fg.ones(2, 3)", "{t}.grad.mul_(2)", "{t}.masked_fill_({t} > 0, 1.0)", "{t}.index_fill_(0, 0, 1)",
    "{t}.requires_grad = False", "{t}.uniform_()", "{t} -= {t}[0]", "{t}.data = {t}.data[0]", "{t}.t_()",
)  # fmt: skip

PASSES = (
    "{t}.sum().backward()", "{t}.sum().backward(retain_graph=True)", "{t}.sum().backward(create_graph=True)",
    "{t}.backward(fg.ones_like({t}), inputs=[{u}])", "fg.autograd.grad({t}.sum(), {u})",
    "fg.autograd.grad({t}.sum(), [a, {u}], allow_unused=True, create_graph=True)",
    "fg.autograd.grad([{t}.sum(), {u}.sum()], [a, b], retain_graph=True, allow_unused=True)",
    "fg.autograd.grad({t}.sum(), {t}.grad_fn)", "{t}.sum().backward(inputs=[graph.get_gradient_edge({u})])",
    "{t}.grad_fn({t})", "{t}.sum().backward({v})", "fg.autograd.backward({v}, {v})", "fg.autograd.grad({t}, {u}, {v})",
)  # fmt: skip

LOOKS = (
    "use({t})", "repr({t})", "use({t}.grad_fn)", "{t}.grad_fn.next_functions[0][0].variable", "fg.hooks({t})",
    "{t}.grad_fn.metadata['x'] = {t}", "{t}.grad_fn._saved_self", "{t}.grad_fn._saved_other", "{t}.grad_fn._saved_result",
    "{t}._version", "{t}.is_leaf", "{t}.grad_fn.next_functions[0][0].next_functions", "pickle.dumps({t})",
    "dir({t}.grad_fn)", "repr({t}.grad_fn)", "{t}.grad_fn.name()", "gc.get_referrers({t})", "gc.get_referents({t})",
    "[gc.get_referents(n) for n in gc.get_referrers({t}.grad_fn)]", "{t}.output_nr", "{t}.grad_fn._input_metadata",
    "graph._current_graph_task_id()", "use(graph._current_graph_task_execution_order())", "{t}.numpy()", "hash({t})",
    "graph._current_autograd_node()", "{t}.tolist()", "len(fg.debug.live())", "{t}.grad_fn.tensor_pre_hooks",
)  # fmt: skip

REGISTRATIONS = (
    "{t}.register_hook({f})", "{t}.register_post_accumulate_grad_hook({f})", "{t}.grad_fn.register_hook({f})",
    "{t}.grad_fn.register_prehook({f})", "{t}.grad_fn.next_functions[0][0].register_hook({f})",
    "{t}.grad_fn.next_functions[0][0].register_prehook({f})", "graph.register_multi_grad_hook([{t}, {u}], {f})",
    "graph.register_multi_grad_hook([{t}, {u}], {f}, mode='any')",
    "graph.register_multi_post_accumulate_grad_hook([a, b], {f})", "{t}.retain_grad()", "graph.queue_callback({f})",
)  # fmt: skip

DROPS = (
    "del {t}", "{t} = None", "kept.clear()", "gc.collect()", "{h}.remove()", "del {h}", "kept.pop()",
    "{t}._backward_hooks.clear()", "{t}._backward_hooks = None", "a._backward_hooks = {{}}", "{h}.__exit__(None, None, None)",
    "{t}.grad_fn.metadata.clear()", "{t}.__dict__.clear()",
)  # fmt: skip

KEEPS = (
    "kept.append({t})", "kept.append({t}.grad_fn)", "kept.append({t}.grad_fn.next_functions)", "{t}.me = {t}",
    "{t}.other = {u}", "kept.append(args)", "kept.append({t}._backward_hooks)", "kept.append(kept)",
    "kept.append(lambda: {t})", "kept.append(graph.get_gradient_edge({t}))", "kept.append({t}.data)",
)  # fmt: skip

RAISES = (
    "raise Mine('here')", "raise KeyboardInterrupt", "raise SystemExit", "1 / 0", "raise StopIteration",
    "raise MemoryError('mine')", "raise RuntimeError('mine')", "raise GeneratorExit", "[].x",
)  # fmt: skip

WRONG_MEMBERS = (
    "{t}.__dict__['_backward_hooks'] = {v}", "{t}.grad_fn._tensor_hooks = {v}", "{t}.grad_fn._pres = {v}",
    "{t}.grad_fn._posts = {v}", "{t}.grad_fn._metadata = {v}", "{t}._backward_hooks = {v}",
    "{t}.__dict__['_post_accumulate_grad_hooks'] = {v}", "{t}.grad_fn._to_save = {v}", "{t}.grad_fn._dirty = {v}",
    "{t}.grad_fn._non_differentiable = {v}", "{t}.grad_fn._options = {v}", "{t}.grad_fn._packed = {v}",
    "{t}.grad_fn._leaf = {v}", "{t}.grad_fn._function = {v}", "{t}.grad_fn._set_sequence_nr({v})", "{t}.grad = {v}",
    "{t}.grad_fn._register_hook_dict({v})", "{t}._post_accumulate_grad_hooks = {v}", "{t}._backward_hooks[5] = {v}",
    "{t}.data = {v}", "{t}.__class__ = {v}", "{t}.grad_fn.__class__ = {v}", "{h}.hooks_dict_ref = {v}", "{h}.id = {v}",
)  # fmt: skip

RESULTS = (
    "None", "None", "None", "args[0]", "args[0] * 2", "args", "args[0].sum()", "fg.ones(2, 3)", "fg.ones(5)", "(None,)",
    "(None, None)", "tuple(args[0])", "tuple(g * 2 for g in args[0])", "LongTuple(args[0])", "ShortTuple(args[0])",
    "OtherTuple(args[0])", "RaisingTuple(args[0])", "(args[0],) * 200", "[None]", "a", "args[0].double()", "b.exp()",
    "object.__new__(fg.Tensor)", "Hostile()", "AnyAttribute()", "args[0].expand(4, 2, 3)", "args[0].detach()",
    "SubTensor([1.0])", "Contrary([1.0])", "(v for v in args)", "args[-1]", "kept",
)  # fmt: skip


# What hooks of modules and optimizers hang on; `m` is a module, `o` an optimizer.
MODULES = (
    "{m}.register_forward_hook({f})", "{m}.register_forward_pre_hook({f})", "{m}.register_full_backward_hook({f})",
    "{m}.register_full_backward_pre_hook({f})", "{m}.register_backward_hook({f})", "{m}.register_state_dict_post_hook({f})",
    "{m}.register_load_state_dict_post_hook({f})", "{m}._register_load_state_dict_pre_hook({f})",
    "{m}.register_state_dict_pre_hook({f})", "{m}.register_forward_hook({f}, always_call=True, with_kwargs=True)",
    "use({m}({t}))", "{m}({t}).sum().backward()", "{m}({t}, {v})", "{m}({v})", "{m}.load_state_dict({m}.state_dict())",
    "{m}.load_state_dict({v})", "{m}.x = {v}", "{m}.weight = {v}", "{m}.weight.data = {v}", "{m}.bias.grad = {v}",
    "{m}.to(fg.float64)", "{m}.zero_grad()", "{m}.eval()", "copy.deepcopy({m})", "pickle.dumps({m})", "{m}.apply({f})",
    "del {m}", "{m}._forward_hooks.clear()", "{m}._parameters['weight'] = {v}", "{m}.forward = {f}", "{m}.m = {m}",
    "o.step()", "o.step({f})", "o.zero_grad()", "o.register_step_pre_hook({f})", "o.register_step_post_hook({f})",
    "o.register_state_dict_post_hook({f})", "o.load_state_dict(o.state_dict())", "o.state.clear()",
    "o.add_param_group({{'params': {t}}})", "o.param_groups.clear()", "cleanup.append(nn.modules.module."
    "register_module_forward_hook({f}).remove)", "cleanup.append(nn.modules.module.register_module_full_backward_hook"
    "({f}).remove)", "fg.nn.utils.clip_grad_norm_({m}.parameters(), 1.0)", "fg.nn.utils.weight_norm({m})",
)  # fmt: skip

MODES = (
    "fg.no_grad()", "fg.enable_grad()", "fg.inference_mode()", "fg.autograd.detect_anomaly()",
    "graph.saved_tensors_hooks({f}, {f})", "graph.save_on_cpu()", "graph.allow_mutation_on_saved_tensors()",
    "graph.disable_saved_tensors_hooks('no')", "graph.node_creation_hook({f})", "fg.set_grad_enabled(False)",
)  # fmt: skip

CALLS = (
    "{n} = fg.utils.checkpoint.checkpoint({f}, {t}, use_reentrant=False)",
    "{n} = fg.utils.checkpoint.checkpoint({f}, {t}, {u}, use_reentrant=True)",
    "{n} = {c}.apply({t}, {u})", "{n} = {c}.apply({t}, {u})", "{n} = {c}.apply({t})", "{n} = {c}.apply({v}, {t})",
    "{n} = {f}({t})", "{n} = {f}(({t}, {u}))", "fg.autograd.gradcheck({f}, [{t}.double()])",
)  # fmt: skip

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "op": tuple(f"{{n}} = {text}" for text in OPS), "register": tuple(f"{{k}} = {text}" for text in REGISTRATIONS),
    "in place": IN_PLACE, "pass": PASSES, "look": LOOKS, "drop": DROPS, "keep": KEEPS, "raise": RAISES,
    "wrong member": WRONG_MEMBERS, "module": MODULES, "call": CALLS,
}  # fmt: skip


class Scene:
    """Draws statements and remembers which names there are.

    Parameters
    ----------
    rng : random.Random
    kinds : mapping of str to int
        Kinds of statements, the names of `_TEMPLATES`, with their weights.
    given : sequence of str
        What callbacks may take for a tensor among their arguments.
    """

    def __init__(
        self, rng: random.Random, kinds: Mapping[str, int],
        given: Sequence[str] = ("args[0]", "args[0]", "args[-1]", "args[0][0]"),
    ) -> None:  # fmt: skip
        self.rng = rng
        self.kinds = kinds
        self.given = given
        self.tensors = ["a", "b", "c", "d"]
        self.handles = ["h"]
        self.modules = ["m"]
        self.functions: list[str] = []
        self.classes = ["Twice"]
        self.made = 0
        self.within = 0  # so many callbacks

    def fresh(self, letter: str) -> str:
        """A name that is not used yet."""
        self.made += 1
        return f"{letter}{self.made}"

    def tensor(self) -> str:
        """The name of a tensor, rather of a late one; in a callback perhaps what it was given."""
        if self.within and self.given and self.rng.random() < 0.25:
            return self.rng.choice(self.given)
        return self.rng.choice([*self.tensors, *self.tensors[-3:]])

    def value(self) -> str:
        """A name, or a value that nobody expects."""
        return self.tensor() if self.rng.random() < 0.3 else values.hostile(self.rng)

    def function(self) -> str:
        """The name of a callback, or now and then something else in its place."""
        if not self.functions or self.rng.random() < 0.03:
            return values.hostile(self.rng)
        return self.rng.choice(self.functions)

    def filled(self, text: str) -> str:
        """A template with names and values in its places; what it makes gets a new name."""
        fields = {
            "t": self.tensor, "u": self.tensor, "v": self.value, "f": self.function,
            "h": lambda: self.rng.choice(self.handles), "m": lambda: self.rng.choice(self.modules),
            "c": lambda: self.rng.choice(self.classes), "n": lambda: self.fresh("t"), "k": lambda: self.fresh("h"),
        }  # fmt: skip
        found = {name: fields[name]() for _, name, _, _ in Formatter().parse(text) if name}
        self.tensors += [found["n"]] if "n" in found else []
        self.handles += [found["k"]] if "k" in found else []
        return text.format(**found)

    def statement(self) -> str:
        """A statement, now and then in a mode."""
        kind = self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]
        text = self.filled(self.rng.choice(_TEMPLATES[kind]))
        if self.rng.random() < 0.06:
            mode = self.filled(self.rng.choice(MODES))
            return f"with {mode}:\n{textwrap.indent(text, '    ')}"
        return text

    def body(self, results: Sequence[str] = RESULTS, first: str = "", least: int = 0, most: int = 3) -> str:
        """The body of a callback: a few statements, then something is raised or returned."""
        lines = ["tick()", first] if first else ["tick()"]
        tensors, handles = list(self.tensors), list(self.handles)
        self.within += 1
        lines += [self.statement() for _ in range(self.rng.randint(least, most))]
        self.within -= 1
        self.tensors, self.handles = tensors, handles  # what the callback makes may never be made
        if self.rng.random() < 0.12:
            lines.append(self.rng.choice(RAISES))
        lines.append(f"return {self.rng.choice(results)}")
        bound = {n.id for n in ast.walk(ast.parse("\n".join(lines[:-1]))) if isinstance(n, ast.Name) and not
                 isinstance(n.ctx, ast.Load)}  # fmt: skip
        lines = [*([f"global {', '.join(sorted(bound))}"] if bound else []), *lines]
        return textwrap.indent("\n".join(lines), "    ")

    def callback(self, results: Sequence[str] = RESULTS, least: int = 0, most: int = 3) -> str:
        """The definition of a function that takes anything."""
        body, name = self.body(results, least=least, most=most), self.fresh("f")
        self.functions.append(name)
        return f"def {name}(*args, **kwargs):\n{body}"

    def custom_function(self) -> str:
        """The definition of a custom function whose parts do what callbacks do."""
        kept = "ctx.save_for_backward(*args)"
        context = self.rng.choice(("pass", kept, kept, "ctx.mark_dirty(args[0])", "ctx.save_for_backward(a * 2)", "kept.append(ctx)",
                                   "ctx.set_materialize_grads(False)", "ctx.mark_non_differentiable(*args)"))  # fmt: skip
        use = self.rng.choice(
            ("ctx.saved_tensors", "ctx.saved_tensors", "pass", "kept.append(ctx)", "ctx.needs_input_grad")
        )
        forward = self.body(("args[0] * 2", "args[0] * 2", "(args[0] * 2, args[1].exp())", *RESULTS), context)
        backward = self.body(("args[0]", "(args[0], None)", "(args[0], args[0])", *RESULTS), use)
        parts = [("forward", forward), ("backward", backward)]
        name = self.fresh("C")
        self.classes.append(name)
        methods = "\n".join(f"@staticmethod\ndef {part}(ctx, *args):\n{text}" for part, text in parts)
        return f"class {name}(fg.autograd.Function):\n{textwrap.indent(methods, '    ')}"

    def ops(self, least: int, most: int) -> list[str]:
        """A few new tensors."""
        return [self.filled(self.rng.choice(_TEMPLATES["op"])) for _ in range(self.rng.randint(least, most))]

    def module(self) -> list[str]:
        """A module, perhaps one whose forward does what callbacks do."""
        name = self.fresh("m")
        self.modules.append(name)
        if self.rng.random() < 0.5:
            made = self.rng.choice(("nn.Linear(3, 3)", "nn.Sequential(nn.Linear(3, 3), nn.ReLU())", "nn.BatchNorm1d(3)",
                                    "nn.LSTM(3, 3)", "nn.LayerNorm(3)", "nn.Dropout(0.5)", "nn.ModuleList([nn.ReLU()])"))  # fmt: skip
            return [f"{name} = {made}"]
        body = self.body(("args[0] * 2", "args[0]", "(args[0].exp(), {'x': args[0]})", *RESULTS))
        kind = self.fresh("M")
        text = f"def forward(self, *args, **kwargs):\n{body}"
        return [f"class {kind}(nn.Module):\n{textwrap.indent(text, '    ')}", f"{name} = {kind}()"]
