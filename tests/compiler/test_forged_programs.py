"""Programs with a word changed are refused, or bind; none lets a call touch what is not its own."""

from __future__ import annotations

import random

import pytest

import fastgrad as fg
from fastgrad.compiler.programs import Before, Program, as_words
from fastgrad.compiler.structure import GivenBack
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import BOUND, PROGRAM, REGION
from fastgrad.native.host.tape import Tape

N_WRITES = BOUND.fields["n_writes"][0]


def made(k):
    """A program before it is bound, of a tape with a step of an optimizer."""
    x, w = fg.randn(5), fg.ones(5, requires_grad=True)
    w.grad = fg.ones(5)
    optimizer = fg.optim.Adam([w], betas=(0.5, 0.75))
    optimizer.step()  # makes its state
    if k % 2 == 0:
        w.grad = None
    given, held = [Before.of(x)], [Before.of(t) for t in (w, *optimizer.state[w].values())]
    tape = Tape(hooks=True, values=True)
    with tape:
        assert k % 5 or x.sum().item() < 1e9
        if k % 3 == 0:
            w.grad = None
        (x * w).sum().backward()
        out = x * 2 + 1
        x.mul_(2)
        optimizer.step()
        value = x.sum().item()
    options = [option for settings in tape._settings.values() for _, option in settings.options()]
    program = Program(tape, given, held, [out, GivenBack(int(k % 5 == 0), value)], options=options)
    assert len(program.brought) == 5
    return program


def changed(program, words, rng):
    """Change a word or two, but for how often memory is written, which is only counted."""
    bound = PROGRAM.words + words[0] * REGION.words + 2 * words[1]
    n_bound = words[2]
    for _ in range(rng.choice([1, 1, 2])):
        k = rng.randrange(len(words))
        if 0 <= k - bound < n_bound * BOUND.words and (k - bound) % BOUND.words == N_WRITES:
            continue
        step = words[k] + rng.choice([-8, -1, 1, 4, 8, 64])
        words[k] = rng.choice([step, 0, 1, -1, 2**39, 2**63 - 1, rng.choice(words)])


@pytest.mark.parametrize("seed", range(4))
def test_forged_programs(seed):
    rng = random.Random(seed)
    n_bound = n_refused = 0
    for k in range(300):
        program = made(k)
        words = program.words()
        changed(program, words, rng)
        memory = tuple(region.memory for region in program.regions.all)
        try:
            rt.bind_tape(program.tape, memory, as_words(words), tuple(program.arenas))
        except RuntimeError:
            n_refused += 1
            continue
        n_bound += 1
        held = [before.tensor for before in program.held]
        objects = (*held, *(x for b in program.brought for x in (b.option.group, b.option.key)))
        for _ in range(2):
            try:
                answer = rt.call_tape(program.tape, (fg.randn(5),), objects)
            except RuntimeError:
                continue
            for t in answer if isinstance(answer, tuple) else ():
                if isinstance(t, float):
                    continue
                assert t.numpy().copy().size == t.numel()
    assert n_bound > 50
    assert n_refused > 50
    fg.debug.check()
