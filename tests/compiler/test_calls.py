"""Calls of Python in replays: hooks of every kind and custom functions fire as in eager calls."""

from __future__ import annotations

import gc
import random

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.autograd import Function
from fastgrad.nn.modules import module as module_hooks
from fastgrad.optim import optimizer as optimizers

CALLS = 5


def net(n=3):
    fg.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(n) for layer in (nn.Linear(4, 4), nn.Tanh())))


def values(value):
    """What tests compare of a value."""
    if isinstance(value, fg.Tensor):
        return value.detach().flatten().tolist(), bool(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return tuple(map(values, value))
    if isinstance(value, dict):
        return {k: values(v) for k, v in value.items()}
    return value


def near(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return a == pytest.approx(b, rel=1e-5, abs=1e-6)
    return a == b


def training(model, optimizer=None):
    def step(x):
        if optimizer is None:
            model.zero_grad()
        else:
            optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach()

    return step


def run(make, compiled, calls):
    """What calls give, and what hooks noted."""
    log = []
    step, model = make(log)
    call = fg.compile(step) if compiled else step
    seen = []
    for k in range(calls):
        fg.manual_seed(k + 1)
        out = call(fg.randn(2, 4))
        if out.requires_grad:
            out.sum().backward()
        grads = [p.grad for p in model.parameters()]
        seen.append((values(out), values([*model.parameters()]), values(grads), log.copy()))
        log.clear()
    return seen, call


def both(make, least=3, calls=CALLS):
    """Run calls eagerly and compiled, and compare what they give and what hooks noted, in order."""
    eager, _ = run(make, False, calls)
    found, call = run(make, True, calls)
    for k, (a, b) in enumerate(zip(eager, found, strict=True)):
        assert near(a[3], b[3]), (k, a[3], b[3])
        assert near(a[:3], b[:3]), k
    (signature,) = fg.compile.explain(call).signatures
    assert signature.refused == ""
    assert signature.n_replayed >= least, str(signature)
    return call


def forms(model):
    """Forward alone, forward with a backward pass outside, and a whole step."""
    return {
        "forward": lambda: model,
        "training": lambda: training(model),
        "optimizer": lambda: training(model, fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)),
    }


FORMS = ("forward", "training", "optimizer")


def step_of(form, model):
    found = forms(model)[form]()
    return (lambda x: model(x)) if form == "forward" else found


# --- hooks of modules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_forward_hooks_that_look(form):
    def make(log):
        model = net()
        for k, m in enumerate(model):
            m.register_forward_pre_hook(lambda m, args, k=k: log.append(("before", k, values(args))))
            m.register_forward_hook(lambda m, args, out, k=k: log.append((k, values(args), values(out))))
        return step_of(form, model), model

    both(make)


@pytest.mark.parametrize("form", FORMS)
def test_forward_hooks_that_replace(form):
    def make(log):
        model = net()
        model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        model[1].register_forward_hook(lambda m, args, out: out * out + args[0])
        model[2].register_forward_pre_hook(lambda m, args: args[0].exp())
        model[4].register_forward_hook(lambda m, args, out: log.append(values(out)) or out.detach() - out)
        model[5].register_forward_hook(lambda m, args, out: (out * 3).sin())
        return step_of(form, model), model

    both(make)


@pytest.mark.parametrize("form", FORMS)
def test_hooks_whose_numbers_change(form):
    def make(log):
        model, count = net(), [0]

        def scale(m, args, out):
            count[0] += 1
            log.append(count[0])
            return out * count[0]

        model[1].register_forward_hook(scale)
        return step_of(form, model), model

    both(make)


@pytest.mark.parametrize("form", FORMS)
def test_hooks_with_parameters_of_their_own(form):
    def make(log):
        model, gain = net(), nn.Parameter(fg.full((4,), 1.5))
        holder = nn.Module()
        holder.gain, holder.model = gain, model
        model[1].register_forward_hook(lambda m, args, out: out * gain)

        def call(x):
            holder.zero_grad()
            loss = (model(x) ** 2).sum()
            if form == "forward":
                return loss
            loss.backward()
            return loss.detach()

        return call, holder

    both(make)


@pytest.mark.parametrize("form", FORMS)
def test_forward_hooks_that_register_hooks(form):
    def make(log):
        model = net()

        def watch(m, args, out):
            out.register_hook(lambda g: log.append(("grad", values(g))) or g * 2)

        model[1].register_forward_hook(watch)
        model[3].register_forward_hook(lambda m, args, out: log.append(("out", values(out))))
        return step_of(form, model), model

    both(make)


@pytest.mark.parametrize("form", FORMS)
def test_keyword_arguments_and_structures(form):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, *, scale, flag=True):
            h = self.linear(x) * scale
            return {"out": h, "others": [h + 1, flag]}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer()

        def forward(self, x):
            found = self.layer(x, scale=x.abs())
            return found["out"] + found["others"][0]

    def make(log):
        fg.manual_seed(0)
        model = Model()

        def before(m, args, kwargs):
            log.append((values(args), values(kwargs)))
            kwargs["scale"] = kwargs["scale"] * 2

        def again(m, args, kwargs):
            return args, {**kwargs, "flag": False}

        def after(m, args, kwargs, out):
            log.append((values(args), values(kwargs), values(out)))
            return {"out": out["out"] * 2, "others": out["others"]}

        model.layer.register_forward_pre_hook(before, with_kwargs=True)
        model.layer.register_forward_pre_hook(again, with_kwargs=True)
        model.layer.register_forward_hook(after, with_kwargs=True, always_call=True)
        return step_of(form, model), model

    both(make)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("form", FORMS)
def test_full_backward_hooks(form):
    def make(log):
        model = net()
        for k in (0, 2, 3):
            model[k].register_full_backward_hook(
                lambda m, gi, go, k=k: log.append((k, values(gi), values(go)))
            )
            model[k].register_full_backward_pre_hook(lambda m, go, k=k: log.append(("pre", k, values(go))))
        model[3].register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
        model[4].register_full_backward_pre_hook(lambda m, go: (go[0] + 1,))
        return step_of(form, model), model

    both(make)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_global_hooks():
    handles = []

    def make(log):
        model = net(2)
        for register in (
            module_hooks.register_module_forward_pre_hook,
            module_hooks.register_module_forward_hook,
            module_hooks.register_module_full_backward_hook,
            module_hooks.register_module_full_backward_pre_hook,
        ):
            handles.append(register(lambda m, *rest: log.append((type(m).__name__, values(rest)))))
        return training(model), model

    try:
        eager, _ = run(make, False, 4)
        for handle in handles:
            handle.remove()
        found, call = run(make, True, 4)
        assert near([a[3] for a in eager], [b[3] for b in found])
        assert sum(s.n_replayed for s in fg.compile.explain(call).signatures) >= 2
    finally:
        for handle in handles:
            handle.remove()


def test_a_global_hook_that_comes_later():
    model, log = net(1), []
    call = fg.compile(lambda x: model(x))
    for _ in range(3):
        call(fg.ones(2, 4))
    handle = module_hooks.register_module_forward_hook(lambda m, args, out: log.append(1))
    try:
        call(fg.ones(2, 4))
        assert len(log) == 3
    finally:
        handle.remove()
    call(fg.ones(2, 4))
    assert len(log) == 3


# --- optimizers, callbacks -------------------------------------------------------------------------------------


def test_hooks_of_optimizers():
    handles = []

    def make(log):
        model = net(1)
        optimizer = fg.optim.Adam(model.parameters(), lr=0.1)

        def clip(opt, args, kwargs):
            for p in opt.param_groups[0]["params"]:
                log.append(("before", values(p.grad)))
                p.grad.clamp_(-0.1, 0.1)

        optimizer.register_step_pre_hook(clip)
        optimizer.register_step_post_hook(
            lambda opt, args, kwargs: log.append([values((p, p.grad)) for p in opt.param_groups[0]["params"]])
        )
        for handle in handles:
            handle.remove()
        handles[:] = [
            optimizers.register_optimizer_step_pre_hook(lambda *a: log.append("all, before")),
            optimizers.register_optimizer_step_post_hook(lambda *a: log.append("all, after")),
        ]
        return training(model, optimizer), model

    try:
        both(make)
    finally:
        for handle in handles:
            handle.remove()


def test_callbacks_of_passes():
    def make(log):
        model = net(1)

        def done():
            log.append(("done", [values(p.grad) for p in model.parameters()]))
            if len(log) < 5:
                fg.autograd.Variable._execution_engine.queue_callback(lambda: log.append("more"))

        def queue(g):
            log.append("hook")
            fg.autograd.Variable._execution_engine.queue_callback(done)

        model[0].weight.register_hook(queue)
        model[0].bias.register_hook(lambda g: log.append("bias"))
        return training(model), model

    both(make)


# --- saved tensors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["copy", "same", "number", "cpu"])
def test_hooks_of_saved_tensors(form, how):
    def make(log):
        model, store = net(), {}

        def pack(t):
            log.append(("pack", values(t.detach())))
            if how == "number":
                store[len(store)] = t.detach().clone()
                return len(store) - 1
            return t.detach() if how == "same" else t.detach() * 2

        def unpack(value):
            log.append("unpack")
            if how == "number":
                return store[value]
            return value if how == "same" else value / 2

        def hooks():
            if how == "cpu":
                return fg.autograd.graph.save_on_cpu()
            return fg.autograd.graph.saved_tensors_hooks(pack, unpack)

        def call(x):
            if form != "forward":
                model.zero_grad()
            with hooks():
                out = (model(x) ** 2).sum()
            if form == "forward":
                return out
            out.backward()
            return out.detach()

        return call, model

    both(make)


# --- custom functions ------------------------------------------------------------------------------------------


class Scaled(Function):
    log = None
    factor = 2.0

    @staticmethod
    def forward(ctx, x, w, k):
        ctx.k = k
        ctx.save_for_backward(x, w)
        y = x * w * k
        ctx.total = float(y.sum())
        Scaled.log.append(("forward", values(x.detach()), ctx.needs_input_grad, x.requires_grad))
        return y

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        Scaled.log.append(("backward", ctx.total, values(g)))
        return g * w * ctx.k, (g * x * ctx.k).sum(0), None


class Several(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        index = x.argmax(-1)
        ctx.mark_non_differentiable(index)
        return x * 2, x.exp(), index

    @staticmethod
    def backward(ctx, a, b, i):
        Scaled.log.append((values(a), values(b), i))
        return a * 2 if b is None else a * 2 + b


class WithSetup(Function):
    @staticmethod
    def forward(x, n=3):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        Scaled.log.append(("setup", values(g)))
        return g * ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1), None


@pytest.mark.parametrize("form", FORMS)
def test_custom_functions(form):
    def make(log):
        Scaled.log = log
        model = nn.Module()
        fg.manual_seed(0)
        model.linear, model.w = nn.Linear(4, 4), nn.Parameter(fg.ones(4) * 0.5)

        def call(x):
            if form != "forward":
                model.zero_grad()
            h = Scaled.apply(model.linear(x), model.w, 2.0)
            h.register_hook(lambda g: log.append(("h", values(g))))
            a, b, i = Several.apply(h.tanh())
            out = (a.sum() if form == "training" else (a * b).sum()) + WithSetup.apply(h).sum() + i.sum()
            if form == "forward":
                return out
            out.backward()
            return out.detach()

        return call, model

    both(make)


def test_a_custom_function_over_an_argument():
    def make(log):
        Scaled.log = log
        model = nn.Module()
        model.w = nn.Parameter(fg.ones(4))

        def call(x):
            model.zero_grad()
            out = Scaled.apply(x, model.w, 1.0).sum()
            out.backward()
            return out.detach()

        return call, model

    both(make)


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_function_that_changes_in_place_what_has_a_history_is_right():
    w = fg.ones(4, requires_grad=True)

    def step(x):
        w.grad = None
        Doubled.apply(w * x).sum().backward()
        return w.grad * 1

    call = fg.compile(step)
    for k in range(4):
        assert call(fg.full((4,), k + 1.0)).tolist() == [2.0 * (k + 1)] * 4
    assert fg.compile.explain(call).signatures[0].n_replayed == 2


def test_second_derivatives_within_are_right():
    Scaled.log = []
    w = fg.ones(4, requires_grad=True)

    def step(x):
        w.grad = None
        (g,) = fg.autograd.grad(WithSetup.apply(w * x).sum(), [w], create_graph=True)
        g.sum().backward()
        return w.grad * 1

    call = fg.compile(step)
    for k in range(4):
        x = fg.full((4,), k + 1.0)
        assert fg.equal(call(x), step(x))
    assert fg.compile.explain(call).signatures[0].n_replayed >= 2


# --- exceptions, memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_hook_of_a_module_that_raises(where):
    model, fails = net(2), []

    def hook(m, *rest):
        if fails:
            raise ValueError("enough")

    if where == "forward":
        model[1].register_forward_hook(hook)
    else:
        model[2].register_full_backward_hook(hook)
    step = training(model)
    call = fg.compile(step)
    x = fg.ones(2, 4)
    for _ in range(4):
        expected = call(x)
    fails.append(1)
    with pytest.raises(ValueError, match="enough"):
        call(x)
    fails.clear()
    assert fg.equal(call(x), expected)
    assert fg.compile.explain(call).signatures[0].n_replayed >= 3


def test_what_hooks_keep_is_not_overwritten():
    model, kept, grads = net(2), [], []
    model[1].register_forward_hook(lambda m, args, out: kept.append(out))
    model[2].register_full_backward_hook(lambda m, gi, go: grads.append(go[0]))
    call = fg.compile(training(model))
    for k in range(5):
        call(fg.full((2, 4), k + 1.0))
    assert len(fg.compile.explain(call).signatures) == 1
    for k, t in enumerate(kept):
        x = fg.full((2, 4), k + 1.0)
        with fg.no_grad():
            h = fg.tanh(nn.functional.linear(x, model[0].weight, model[0].bias))
        assert fg.allclose(t, h)
        assert t.requires_grad
    assert len({g.data_ptr() for g in grads}) == 5


def test_calls_that_wait_for_their_backward():
    def outputs(call, model):
        outs = [call(fg.full((2, 4), k + 1.0)) for k in range(4)]
        for k, out in enumerate(outs):
            (out.sum() * (k + 1)).backward()
        return [p.grad for p in model.parameters()]

    found = []
    for compiled in (False, True):
        model = net(2)
        model[1].register_forward_hook(lambda m, args, out: out * out)
        call = fg.compile(lambda x, m=model: m(x)) if compiled else model
        for _ in range(2):
            model.zero_grad()
            grads = outputs(call, model)
        found.append(grads)
    assert all(fg.allclose(a, b) for a, b in zip(*found, strict=True))


# --- random programs -------------------------------------------------------------------------------------------


class Layer(nn.Module):
    """A layer that may save through hooks, apply custom functions, or register hooks on what it makes."""

    def __init__(self, kind, name):
        super().__init__()
        self.linear, self.w = nn.Linear(4, 4), nn.Parameter(fg.ones(4) * 0.7)
        self.kind, self.name = kind, name

    def forward(self, x):
        h = self.linear(x)
        if self.kind == "function":
            h = Scaled.apply(h, self.w, 1.5)
        elif self.kind == "several":
            a, b, _ = Several.apply(h.tanh())
            h = a - b
        elif self.kind == "saved":
            with fg.autograd.graph.saved_tensors_hooks(lambda t: t.detach() * 2, lambda t: t / 2):
                h = (h * self.w).tanh() * h.sigmoid()
        elif self.kind == "hooked":
            h.register_hook(lambda g: Scaled.log.append((self.name, values(g))))
            h = h.tanh()
            h.grad_fn.register_prehook(lambda go: (go[0] * 2,))
        return h.tanh()


def add_hooks(rng, m, log, k):
    """Give a module some hooks, which note what they get."""

    def note(what, change):
        def hook(module, *rest):
            log.append((what, k, values(rest)))
            return change(*rest) if rng_changes else None

        rng_changes = rng.random() < 0.5
        return hook

    for what, change in (
        ("forward_pre_hook", lambda args: (args[0] * 0.5,)),
        ("forward_hook", lambda args, out: (out * 2).sin()),
        ("full_backward_pre_hook", lambda go: (go[0] * 1.5,)),
        ("full_backward_hook", lambda gi, go: tuple(None if g is None else g * 0.5 for g in gi)),
    ):
        if rng.random() < 0.4:
            getattr(m, f"register_{what}")(note(what, change))


@pytest.mark.parametrize("form", ["forward", "optimizer"])
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_hooks_of_every_kind(seed, form):
    def make(log):
        rng = random.Random(seed)
        Scaled.log = log
        fg.manual_seed(seed)
        kinds = ["function", "several", "saved", "hooked", "plain"]
        first = nn.Linear(4, 4)
        layers = [Layer(rng.choice(kinds), k) for k in range(3)]
        model = nn.Sequential(first, *layers)
        for k, m in enumerate(layers):
            add_hooks(rng, m, log, k)
            if rng.random() < 0.3:
                m.linear.weight.register_hook(lambda g, k=k: log.append(("weight", k, values(g))))
            if rng.random() < 0.3:
                m.linear.bias.register_hook(lambda g: g * 2)
        step = step_of(form, model)
        return step, model

    def ordered(log):
        """Hooks of leaves come behind the node of a compiled forward computation."""
        kept = [e for e in log if form != "forward" or e[0] != "weight"]
        return kept, sorted(e for e in log if e[0] == "weight")

    eager, _ = run(make, False, CALLS)
    found, call = run(make, True, CALLS)
    for k, (a, b) in enumerate(zip(eager, found, strict=True)):
        assert near(ordered(a[3]), ordered(b[3])), k
        assert near(a[:3], b[:3]), k
    (signature,) = fg.compile.explain(call).signatures
    assert signature.refused == ""
    assert signature.n_replayed >= 2, str(signature)
    del call
    gc.collect()  # a graph that a node of another graph holds goes with the next collection


def test_a_hook_that_the_function_calls_as_well():
    """What such a function holds is compared: the compiled one decides by it."""
    scale = [1.0]
    w = fg.ones(2, requires_grad=True)

    def scaled(g):
        return g * scale[0]

    handle = w.register_hook(scaled)

    @fg.compile
    def step(x):
        w.grad = None
        (w * scaled(x)).sum().backward()
        return w.grad.clone()

    found = []
    for k in range(12):
        scale[0] = 1.0 + k // 4
        found.append(step(fg.ones(2)).tolist()[0])
    assert found == [(1.0 + k // 4) ** 2 for k in range(12)]
    (report,) = fg.compile.explain(step).signatures
    assert report.n_replayed > 0
    handle.remove()
