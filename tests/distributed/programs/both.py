"""What programs for both libraries begin with: a group over MPI or gloo, and models with the same numbers in both.

The first argument is the name of the library; for torch, the second one is a file through which the ranks meet.
"""

import importlib
import json
import os
import sys
import traceback

import numpy as np

name = sys.argv[1]
ours = name == "fastgrad"
lib = importlib.import_module(name)
dist = importlib.import_module(f"{name}.distributed")
Future = importlib.import_module(f"{name}.futures").Future
nn = lib.nn
DDP = nn.parallel.DistributedDataParallel
if name == "torch":
    lib.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        "file://" + sys.argv[2],
        rank=int(os.environ["PMI_RANK"]),
        world_size=int(os.environ["PMI_SIZE"]),
    )
else:
    dist.init_process_group("mpi", "env://")
rank, n = dist.get_rank(), dist.get_world_size()


def numbers(*sizes, seed=0):
    """The same numbers in both libraries."""
    rng = np.random.RandomState(seed)
    return lib.tensor(rng.uniform(-1, 1, sizes).astype(np.float32).tolist())


def fill(model, seed=0):
    with lib.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(numbers(*p.shape, seed=seed + k))
    return model


def mlp(seed=0):
    return fill(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)), seed)


class Crossed(nn.Module):
    """Layers that run in another order than that of their parameters."""

    def __init__(self):
        super().__init__()
        self.b, self.a, self.c = (nn.Linear(4, 4, bias=False) for _ in range(3))

    def forward(self, x):
        return self.b(self.c(self.a(x)))


def values(model):
    return [p.detach().tolist() for p in model.parameters()]


def grads(model):
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


def batch(step=0, rank=rank):
    return numbers(4, 6, seed=100 + 10 * step + rank)


def train(ddp, steps=4, to_none=True):
    optimizer = lib.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=to_none)
        ddp(batch(step)).pow(2).mean().backward()
        optimizer.step()
    return values(ddp)


def gives(value):
    out = Future()
    out.set_result(value)
    return out


def hooks(module):
    """A module of communication hooks."""
    return importlib.import_module(f"{name}.distributed.algorithms.ddp_comm_hooks.{module}")


SMALL = 100 / 2**20  # MiB: a few parameters in a bucket


def raises(error, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error as found:
        return str(found)
    raise AssertionError(f"{function} did not raise {error}")


def tell(mine):
    """Print what all ranks found, as JSON, and end the program."""
    told = [None] * n
    dist.all_gather_object(told, mine)
    if rank == 0:
        print(json.dumps(told), flush=True)
    if not ours:  # PyTorch's threads end now and then by an abort of the process
        dist.barrier()
        os._exit(0)
    dist.destroy_process_group()


def report(functions, only_here):
    """Run the tests of sentences, by their numbers, and tell what failed: None of a test that did not."""
    failures = {}
    for number, test in functions.items():
        if not number[1:].isdigit() or (not ours and number in only_here):
            continue
        failures[number] = None
        try:
            test()
        except Exception:
            failures[number] = f"rank {rank}: {traceback.format_exc()}"
    tell(failures)
