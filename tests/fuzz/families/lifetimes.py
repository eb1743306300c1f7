"""Tensors and nodes that die while others look at them: weak references, finalizers, the collector, resurrection."""

from __future__ import annotations

import random

from tests.fuzz.scene import RESULTS, START, Scene

KINDS = {"op": 30, "register": 8, "in place": 6, "pass": 8, "look": 10, "drop": 22, "keep": 12, "call": 3}

WATCHES = (
    "kept.append(weakref.ref({t}, {f}))", "kept.append(weakref.ref({t}.grad_fn, {f}))", "cleanup.append(weakref.finalize({t}, {f}).detach)",
    "cleanup.append(weakref.finalize({t}.grad_fn, {f}, {u}.grad_fn).detach)", "kept.append(weakref.proxy({t}, {f}))",
    "kept.append(weakref.ref({t}.grad_fn.next_functions[0][0], {f}))", "w = weakref.WeakValueDictionary({{1: {t}}})",
    "{t}.me = Dies({f})", "{t}.grad_fn.metadata['x'] = Dies({f})", "x = Dies({f}); x.t = {t}; x.x = x; del x",
    "x = Dies({f}); x.n = {t}.grad_fn; x.x = x; del x", "{t}.register_hook(Dies({f}))", "kept.append(Dies({f}))",
    "watch_collections({f})", "w[1]", "kept[0]()", "kept[-1]()", "kept[0].exp()",
    "n = {t}.grad_fn", "kept.append(n.next_functions)", "use(n)", "n.next_functions[0][0].variable", "del n",
    "use(n.next_functions[0][0].variable)", "{t} = Finalized([1.0, 2.0]).requires_grad_()", "{t}.__del__()",
    "{t} = Finalized([1.0, 2.0]); {t}.me = {t}",
)  # fmt: skip


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS)
    steps = [*START, "w = {}", "n = gone_node()", *scene.ops(2, 4)]
    for _ in range(rng.randint(1, 2)):
        steps.append(scene.callback(("None", "kept.append(n.next_functions)", "kept.append(n)", "use(n)", "use(w.get(1))",
                                     "kept.append([t.variable for t, _ in n.next_functions])", *RESULTS)))  # fmt: skip
    for _ in range(rng.randint(8, 22)):
        watch = rng.random() < 0.4
        steps += scene.filled(rng.choice(WATCHES)).split("; ") if watch else [scene.statement()]
    junk = "junk = [fg.ones(2) * k for k in range(50)]"
    return [*steps, junk, "use(kept)", "gc.collect()", junk, "use(kept)", "kept.clear()"]
