"""Random models with random hooks and options, in either library: prints what each of many seeds gives as JSON.

The arguments after those of `both` are the first seed and how many follow.
"""

import contextlib
import random
import sys

from both import DDP, dist, fill, gives, grads, hooks, lib, nn, numbers, rank, tell

first, count = map(int, sys.argv[-2:])
WIDTH = 4


class Model(nn.Module):
    """Layers that are used in the order in which it is told, and a normalisation with buffers."""

    def __init__(self, rng):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(WIDTH, WIDTH, bias=rng.random() < 0.6) for _ in range(rng.randint(2, 5))]
        )
        self.norm = nn.BatchNorm1d(WIDTH, affine=False) if rng.random() < 0.4 else nn.Identity()

    def forward(self, x, path):
        for k in path:
            x = self.layers[k](x).tanh()
        return self.norm(x), {"before": [x]}


class Program:
    """What follows from a seed."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.mine = random.Random(1000 * seed + rank)  # what may differ between ranks
        self.log = []
        model = fill(Model(rng), seed)
        self.names = {id(p): name for name, p in model.named_parameters()}
        self.kind = rng.choice(["usual", "usual", "unused", "static"])
        self.ddp = DDP(
            model,
            bucket_cap_mb=rng.choice([None, 64 / 2**20, 100 / 2**20, 200 / 2**20]),
            # PyTorch refuses unused parameters of static graphs with views
            gradient_as_bucket_view=rng.random() < 0.5 and self.kind != "static",
            find_unused_parameters=self.kind == "unused",
            static_graph=self.kind == "static",
        )
        self.add_comm_hook(rng.choice(["none", "logs", "sums", "allreduce", "fp16", "noop"]))
        layers = list(range(len(model.layers)))
        self.path = rng.choices(layers, k=4) if self.kind == "static" else rng.sample(layers, len(layers))
        self.handles = []

    def add_comm_hook(self, which):
        default = hooks("default_hooks")

        def logs(state, bucket):
            self.log.append(
                [bucket.index(), bucket.is_last(), [self.names[id(p)] for p in bucket.parameters()]]
            )
            return gives(bucket.buffer() * 3)

        def sums(state, bucket):
            work = dist.all_reduce(bucket.buffer(), async_op=True)
            return work.get_future().then(lambda f: f.value()[0] * 2)

        found = {
            "logs": logs,
            "sums": sums,
            "allreduce": default.allreduce_hook,
            "fp16": default.fp16_compress_hook,
            "noop": hooks("debugging_hooks").noop_hook,
        }
        if which != "none":
            self.ddp.register_comm_hook(None, found[which])

    def add_hooks(self):
        """Some hooks on some parameters, each of which may go again later."""
        for name, p in self.ddp.module.named_parameters():
            drawn = self.rng.random()
            scale = self.mine.choice([0.5, 2.0])
            if drawn < 0.15:
                self.handles.append(p.register_hook(lambda g, s=scale: g * s))
            elif drawn < 0.3:

                def post(q, name=name):
                    self.log.append([name, q.grad.tolist()])

                self.handles.append(p.register_post_accumulate_grad_hook(post))
            elif drawn < 0.4:

                def change(q, s=scale):
                    with lib.no_grad():
                        q.grad.mul_(s)

                self.handles.append(p.register_post_accumulate_grad_hook(change))
        if self.handles and self.rng.random() < 0.5:
            self.handles.pop(self.rng.randrange(len(self.handles))).remove()

    def run(self):
        for step in range(4):
            self.add_hooks()
            if self.rng.random() < 0.6:
                self.ddp.zero_grad(set_to_none=self.rng.random() < 0.5)
            path = self.path
            if self.kind == "unused":
                path = self.mine.sample(path, self.mine.randint(1, len(path)))
            apart = self.kind != "static" and self.rng.random() < 0.25
            with self.ddp.no_sync() if apart else contextlib.nullcontext():
                out, more = self.ddp(numbers(3, WIDTH, seed=10 * step + rank), path)
                (out.pow(2).sum() + more["before"][0].sum()).backward()
            self.log.append([step, grads(self.ddp)])
        return [self.log, [b.tolist() for b in self.ddp.buffers()]]


def outcome(seed):
    program = Program(seed)
    try:
        return program.run()
    except RuntimeError as error:
        return f"{program.kind}: {error}"


mine = [outcome(seed) for seed in range(first, first + count)]
tell(mine)
