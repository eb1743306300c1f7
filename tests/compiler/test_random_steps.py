"""Random programs with hooks, modules, checkpoints and custom functions do the same compiled as eagerly.

``FASTGRAD_STEPS=3000 pytest tests/compiler/test_random_steps.py`` runs more of them, as ``bash .ci/steps`` does.
"""

from __future__ import annotations

import gc
import os

import pytest

import fastgrad as fg
from tests.compiler.random_steps.draw import CHANGES, Program, draw
from tests.compiler.random_steps.run import check

CHUNK = 50
PROGRAMS = int(os.environ.get("FASTGRAD_STEPS", "200"))
LEAST_REPLAYED = 0.4


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_programs_do_the_same(start):
    replayed = 0
    for seed in range(start, start + CHUNK):
        program = draw(seed)
        found, n_replayed = check(program)
        assert found is None, f"\n{program}\n{found}"
        replayed += n_replayed > 0
    assert replayed > LEAST_REPLAYED * CHUNK
    gc.collect()  # what that destroys may hold cycles of its own, for the collection behind the test


@pytest.mark.parametrize("seed", range(10_000, 10_004))
def test_programs_with_fused_kernels(seed):
    program = draw(seed)
    found, _ = check(program, fused=True)
    assert found is None, f"\n{program}\n{found}"


def test_every_change_is_drawn():
    drawn = {what for seed in range(200) for what, _ in draw(seed).changes}
    assert drawn == set(CHANGES)


def test_a_difference_is_found():
    """A function that does something else in the second of two worlds."""
    lines = (
        "compiling = fg.compiler.is_compiling",
        "def step(x, y, number=2.0, mode='a', extra=None):",
        "    return (x * w1 * (2 if compiling() else 1)).sum()",
    )
    program = Program(3, "forward", "\n".join(lines), (("nothing", 0),) * 2)
    found, _ = check(program)
    assert found is not None
    assert found.what.startswith("result")
    assert "compiled" in str(found)


def test_a_tensor_that_comes_twice_gets_its_gradient_once():
    f = fg.compile(lambda x, y: (x * y + x).sum())
    for _ in range(4):
        x = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        f(x, x).backward()
        assert fg.equal(x.grad, 2 * x.detach() + 1)
        (g,) = fg.autograd.grad(f(x, x), x, create_graph=True)
        (second,) = fg.autograd.grad(g.sum(), x)
        assert second.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "hook", [lambda g: g.sin(), lambda g: g * g, lambda g: None], ids=["sin", "square", "none"]
)
def test_hooks_within_passes_that_are_differentiated_are_right(hook):
    """What a hook makes of a gradient with a history has one, too: in the recorded call, and in those that follow."""
    found = []
    for wrap in (lambda f: f, fg.compile):
        w = fg.ones(3, requires_grad=True)
        w.register_hook(hook)

        def step(x, w=w):
            (g,) = fg.autograd.grad(((x * w) ** 3).sum(), [w], create_graph=True)
            return fg.autograd.grad((g**2).sum(), [w])[0]

        call = wrap(step)
        found.append([call(fg.tensor([1.0, 2.0, 3.0]) * k).tolist() for k in range(4)])
    assert found[0] == found[1]
    assert fg.compile.explain(call).signatures[0].n_replayed >= 2


class Marked(fg.Tensor):
    pass


def test_classes_of_the_program_are_kept():
    """Whether such a tensor is an argument, reached, or made: what comes of it is of its class, as eagerly."""
    plain, marked = fg.ones(3), fg.ones(3).as_subclass(Marked)
    functions = {
        "argument": (lambda t: t * 2, [plain, marked, plain, marked, marked]),
        "reached": (lambda t: t * marked, [plain] * 3),
        "made": (lambda t: (t * 2).as_subclass(Marked), [plain] * 3),
    }
    for name, (function, arguments) in functions.items():
        call = fg.compile(function)
        assert [type(call(t)) for t in arguments] == [type(function(t)) for t in arguments], name
    with pytest.raises(RuntimeError, match="Marked"):
        fg.compile(lambda t: t * 2, fullgraph=True)(marked)
