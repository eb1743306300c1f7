"""Cases whose outcome is known, for the tests of the fuzzer; it is no family that is run."""

from __future__ import annotations

import random

INNOCENT = (
    "x = fg.ones(2, 3, requires_grad=True)",
    "(x * x).sum().backward()",
    "y = fg.nn.Linear(3, 3)(x)",
    "raise Mine('fine')",
)

# By what the fuzzer says, the statement that is to blame.
OUTCOMES = {
    "": "fg.ones(2) + fg.ones(3)",
    "SIGSEGV in the statement": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hang in the statement": "time.sleep(600)",
    "exit status 3 in the statement": "os._exit(3)",
    "leak of storages, tensors, bytes": "sys.kept = [*getattr(sys, 'kept', ()), fg.ones(2)]",
    "SystemError from the statement": "raise SystemError",
    "KeyboardInterrupt from the statement": "exec(compile('raise Keyboard' + 'Interrupt', 'x', 'exec'))",
    "AttributeError from __init__.py:<module>": "exec(compile('None.shape', fg.__file__, 'exec'))",
    "MemoryError from the statement": "raise MemoryError",
    "meaningless message from the statement": "raise RuntimeError('add(): failed with status -99')",
    "afterwards gradients are off": "getattr(fg, 'set_grad_' + 'enabled')(False)",
    "afterwards hooks of saved tensors are in force": "fg.autograd.graph.save_on_cpu().__getattribute__('__en' + 'ter__')()",
    "a following pass raises AttributeError": "fg.Tensor.__matmul__ = lambda a, b: a.no_such_thing",
    "wrong numbers afterwards: second order": "fg.autograd.grad = lambda y, x, **k: (x * 2,)",
    "something is wrong": "raise Wrong('something is wrong')",
}  # fmt: skip


def draw(rng: random.Random) -> list[str]:
    steps = [*rng.choices(INNOCENT, k=rng.randint(2, 5)), rng.choice(list(OUTCOMES.values()))]
    rng.shuffle(steps)
    return steps
