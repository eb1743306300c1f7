"""Calls with derivatives, on any number of ranks: prints what each rank got, by the case; see `both`."""

import importlib
import warnings

from both import dist, lib, n, numbers, ours, rank, tell

F = importlib.import_module(f"{lib.__name__}.distributed.nn.functional")
R = dist.ReduceOp
warnings.simplefilter("ignore", FutureWarning)


def leaf(*sizes, seed=0):
    return numbers(*sizes, seed=10 * seed + rank).requires_grad_()


def weighted(x, seed=50):
    """A loss in which every element, and every rank, has a weight of its own."""
    return (x * numbers(*x.shape, seed=seed + rank)).sum()


def case_all_reduce():
    x = leaf(2, 3)
    out = F.all_reduce((x * x).t())
    weighted(out).backward()
    return out, x.grad


def case_broadcast():
    x = leaf(4)
    out = F.broadcast(x.exp(), n - 1)
    weighted(out).backward()
    return out, x.grad


def case_reduce():
    x = leaf(4)
    out = F.reduce(x * x, 0)
    weighted(out).backward()
    return out if rank == 0 else x, x.grad


def case_gather():
    x = leaf(2, 2)
    parts = F.gather((x * x).t(), 0)
    sum(weighted(p, 60 + 10 * k) for k, p in enumerate(parts)).backward()
    return *parts, x.grad


def case_scatter():
    x = [leaf(3, seed=k) for k in range(n)]
    out = F.scatter([y.exp() for y in x], 0)
    weighted(out).backward()
    return out, *(y.grad for y in x)


def case_reduce_scatter():
    x = [leaf(3, seed=k) for k in range(n)]
    out = F.reduce_scatter(lib.zeros(3), [y.exp() for y in x])
    weighted(out).backward()
    return out, *(y.grad for y in x)


def case_all_gather():
    x = leaf(2, 3)
    parts = F.all_gather((x * x).t())
    sum(weighted(p, 60 + 10 * k) for k, p in enumerate(parts)).backward()
    return *parts, x.grad


def case_all_to_all():
    x = [leaf(4, seed=k) for k in range(n)]
    outs = F.all_to_all([lib.zeros(4) for _ in range(n)], [y * y for y in x])
    sum(weighted(p, 60 + 10 * k) for k, p in enumerate(outs)).backward()
    return *outs, *(y.grad for y in x)


def case_all_to_all_single():
    x = leaf(2 * n, 2)
    out = F.all_to_all_single(lib.zeros(2 * n, 2), x * x)
    weighted(out).backward()
    return out, x.grad


def case_split():
    sent, came = [1 + k for k in range(n)], [1 + rank] * n
    x = leaf(sum(sent), 2)
    out = F.all_to_all_single(lib.zeros(sum(came), 2), x * x, came, sent)
    weighted(out).backward()
    return out, x.grad


def case_second_derivatives():
    x = leaf(3)
    out = weighted(F.all_reduce(x * x * x) + sum(F.all_gather(x.exp())))
    [first] = lib.autograd.grad(out, x, create_graph=True)
    [second] = lib.autograd.grad(weighted(first * first, 80), x)
    return first, second


def only_here():
    """What PyTorch cannot do over gloo, or has wrong derivatives of."""
    whole = [numbers(3, seed=r) for r in range(n)]
    gradients = [numbers(3, seed=50 + r) for r in range(n)]
    for op, combined in ((R.AVG, "mean"), (R.PRODUCT, "prod"), (R.MIN, "amin"), (R.MAX, "amax")):
        leaves = [w.clone().requires_grad_() for w in whole]
        expected = getattr(lib.stack(leaves), combined)(0)
        expected.backward(sum(gradients))
        for call in (lambda x, op=op: F.all_reduce(x, op), lambda x, op=op: F.reduce(x, 0, op)):
            x = leaf(3)
            out = call(x)
            everywhere = out.detach().clone()
            if lib.equal(call(x.detach()), everywhere) and rank == 0:
                assert lib.allclose(everywhere, expected)
            out.backward(sum(gradients) if call.__code__.co_names[-1] == "reduce" else gradients[rank])
            assert lib.allclose(x.grad, leaves[rank].grad, atol=1e-6), (op, x.grad, leaves[rank].grad)
        x = [leaf(3) for _ in range(n)]
        target = lib.zeros(3)
        out = F.reduce_scatter(target, x, op)
        assert lib.allclose(out, expected) and lib.equal(out.detach(), target)
        out.backward(gradients[rank])
        for k, y in enumerate(x):
            [g] = lib.autograd.grad(getattr(lib.stack(leaves), combined)(0), leaves[rank], gradients[k])
            assert lib.allclose(y.grad, g, atol=1e-6)
    x = leaf(2, 3)
    target = lib.zeros(2 * n, 3)
    out = F._all_gather_base(target, x * x)
    assert lib.equal(out.detach(), target) and lib.equal(out[2 * rank : 2 * rank + 2], x * x)
    out.backward(lib.ones_like(out))
    assert lib.allclose(x.grad, 2 * n * x)
    group = dist.new_group([n - 1])
    if rank == n - 1:
        x = leaf(3)
        (
            F.all_reduce(x * x, group=group) + F.all_gather(x, group)[0] + F.broadcast(x, rank, group)
        ).sum().backward()
        assert lib.allclose(x.grad, 2 * x + 2)
    x = [leaf(1 + k, 2, seed=k) for k in range(n)]  # of other sizes for each rank
    outs = F.all_to_all([lib.zeros(1 + rank, 2) for _ in range(n)], [y * y for y in x])
    sum((k + 1) * out.sum() for k, out in enumerate(outs)).backward()
    assert all(lib.allclose(y.grad, 2 * (rank + 1) * y) for y in x)


mine = {}
for case, function in list(globals().items()):
    if case.startswith("case_"):
        mine[case] = [x.tolist() if lib.is_tensor(x) else x for x in function()]
if ours:
    only_here()
tell(mine)
