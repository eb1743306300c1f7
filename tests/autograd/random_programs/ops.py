"""Which op fits which tensors: source code for an op, and what is known of its results.

Numbers stay small and, where an op has kinks or ties, exact: a rounding error that decides which of two equal elements
is the larger one would look like a difference between the libraries.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest

LIMIT = 300.0  # of the absolute value of an element
SIZE = 48  # of a tensor


@dataclass
class Value:
    """What the generator knows of a tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float64"
    bound: float = 4.0
    exact: bool = True  # no rounding so far
    grad: bool = True
    leaf: bool = False
    base: str = ""  # the tensor whose memory this is; its own name where it has memory of its own
    family: str = ""  # the tensor whose view this is; other than `base` behind a detach
    multi: bool = False  # one of several views that one op made
    sibling: bool = False  # one of several outputs of a node
    output_nr: int = 0  # which of them
    retained: bool = False  # perhaps keeps its gradient
    edges: bool = True  # its node has the same edges in both libraries
    hooked: bool = False
    maybe: bool = False  # a view in one of the libraries
    permuted: bool = False  # its strides are not in order
    strided: bool = False  # its strides may be others in each of the libraries
    reshaped: bool = False  # so whether it is a view depends on the library
    renewed: bool = False  # its node may be newer than what was made from it, in one of the libraries
    expanded: bool = False
    order: int = 0  # how many times it was differentiated
    zeros: bool = False  # perhaps zeros in place of a gradient, which are a leaf
    through: bool = False  # a view of it was changed
    last: bool = False  # takes no more hooks after accumulation
    indexed: bool = False  # comes with indices, from the same node
    # The tensors that this one's gradient flows to, each as it was at that time, itself included.
    reach: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Scope:
    """Tensors to choose from."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values: list[Value] = []
        self.without: tuple[str, ...] = ()  # ops not to draw
        self.vectors = True  # draw products with vectors

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A tensor that fits, rather a recent one."""
        found = [v for v in self.values if fits(v)]
        if not found:
            return None
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]


@dataclass
class Drawn:
    """An op: its code, its operands, its results without their names."""

    code: str
    ins: tuple[Value, ...]
    outs: tuple[Value, ...]
    changes: Value | None = None  # what an in-place op writes to
    view: bool = False  # it writes through a view


def _out(ins: tuple[Value, ...], shape: tuple[int, ...], **more: object) -> Value:
    dtype = "float64" if any(v.dtype == "float64" for v in ins) else ins[0].dtype
    facts = {
        "dtype": dtype,
        "bound": max(v.bound for v in ins),
        "exact": all(v.exact for v in ins),
        "grad": any(v.grad for v in ins),
        "order": max(v.order for v in ins),
        "strided": any(v.permuted or v.strided for v in ins),
    }
    return Value("", shape, **(facts | more))


def _view(v: Value, shape: tuple[int, ...], **more: object) -> Value:
    inherited = {
        "base": v.base,
        "family": v.family,
        "multi": v.multi,
        "maybe": v.maybe,
        "expanded": v.expanded,
        "permuted": v.permuted,
        "strided": v.strided,
        "reshaped": v.reshaped,
    }
    return _out((v,), shape, **(inherited | more))


def _same(*values: Value) -> bool:
    return len({v.shape for v in values}) == 1


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    pairs = list(zip_longest(reversed(a), reversed(b), fillvalue=1))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        return None
    shape = tuple(n if m == 1 else m for m, n in reversed(pairs))
    return shape if math.prod(shape) <= SIZE else None


# --- elementwise ----------------------------------------------------------------------------------------------

# code: the bound of the result, whether it stays exact, whether it needs exact operands, the same edges
_UNARY: dict[str, tuple[Callable[[float], float], bool, bool, bool]] = {
    "-{a}": (lambda b: b, True, False, True),
    "{a}.abs()": (lambda b: b, True, True, True),
    "{a}.relu()": (lambda b: b, True, True, True),
    "{a} * 2": (lambda b: 2 * b, True, False, True),
    "3 * {a}": (lambda b: 3 * b, True, False, False),
    "{a} + 1": (lambda b: b + 1, True, False, True),
    "{a} - 1": (lambda b: b + 1, True, False, True),
    "2 - {a}": (lambda b: b + 2, True, False, False),
    "{a} / 2": (lambda b: b, True, False, True),
    "{a} * 1": (lambda b: b, True, False, True),
    "{a}.square()": (lambda b: b * b, True, False, True),
    "{a} ** 2": (lambda b: b * b, True, False, False),
    "{a} * {a}": (lambda b: b * b, True, False, True),
    "{a}.clone()": (lambda b: b, True, False, True),
    "{a}.clamp(-1, 2)": (lambda b: 2.0, True, True, False),
    "{a}.clamp(min=0)": (lambda b: b, True, True, False),
    "{a}.exp()": (lambda b: math.exp(min(b, 50)), False, False, True),
    "{a}.tanh()": (lambda b: 1.0, False, False, True),
    "{a}.sigmoid()": (lambda b: 1.0, False, False, True),
    "{a}.sin()": (lambda b: 1.0, False, False, True),
    "{a}.cos()": (lambda b: 1.0, False, False, True),
    "({a} * {a} + 1).log()": (lambda b: b, False, False, True),
    "({a} * {a} + 1).sqrt()": (lambda b: b + 1, False, False, True),
    "1 / ({a} * {a} + 1)": (lambda b: 1.0, False, False, False),
    "{a}.contiguous() * 2": (lambda b: 2 * b, True, False, True),
    "{a}.tril() + {a}.triu()": (lambda b: 2 * b, True, False, True),
    "lib.where({a} > 0, {a}, {a} * 2)": (lambda b: 2 * b, True, True, False),
    "{a}.masked_fill({a} > 1, 2.0)": (lambda b: b + 2, True, True, False),
    "{a}.to(lib.float32)": (lambda b: b, False, False, True),
    "{a}.double() * 1": (lambda b: b, True, False, True),
}


def unary(s: Scope) -> Drawn | None:
    code = s.rng.choice([code for code in _UNARY if not any(name in code for name in s.without)])
    bound, stays, needs, edges = _UNARY[code]
    rank = 2 if "tril" in code else 0
    a = s.pick(lambda v: bound(v.bound) <= LIMIT and (v.exact or not needs) and len(v.shape) >= rank)
    if a is None:
        return None
    out = _out((a,), a.shape, bound=bound(a.bound), exact=a.exact and stays, edges=edges)
    if "float32" in code:
        if a.dtype == "float32":  # gives the tensor itself
            return None
        out.dtype = "float32"
    elif "double" in code:
        out.dtype = "float64"
    return Drawn(code.format(a=a.name), (a,), (out,))


_BINARY: dict[str, tuple[Callable[[float, float], float], bool, bool]] = {
    "{a} + {b}": (lambda a, b: a + b, True, False),
    "{a} - {b}": (lambda a, b: a + b, True, False),
    "{a} * {b}": (lambda a, b: a * b, True, False),
    "{a} / ({b} * {b} + 1)": (lambda a, b: a, False, False),
    "lib.maximum({a}, {b})": (max, True, True),
    "lib.minimum({a}, {b})": (max, True, True),
    "lib.where({a} > {b}, {a}, {b} * 2)": (lambda a, b: a + 2 * b, True, True),
}


def binary(s: Scope) -> Drawn | None:
    code = s.rng.choice([*_BINARY, "{a} + {b}", "{a} * {b}", "{a} * {b}"])
    bound, stays, needs = _BINARY[code]
    a = s.pick(lambda v: v.exact or not needs)
    if a is None:
        return None
    b = s.pick(
        lambda v: (
            (v.exact or not needs)
            and bound(a.bound, v.bound) <= LIMIT
            and _broadcast(a.shape, v.shape) is not None
            and (v.dtype == a.dtype or s.rng.random() < 0.2)
        )
    )
    if b is None:
        return None
    exact = a.exact and b.exact and stays
    shape = _broadcast(a.shape, b.shape)
    out = _out((a, b), shape, bound=bound(a.bound, b.bound), exact=exact, edges="where" not in code)
    return Drawn(code.format(a=a.name, b=b.name), (a, b), (out,))


# --- reductions and products ----------------------------------------------------------------------------------


def reduce(s: Scope) -> Drawn | None:
    name = s.rng.choice(["sum", "sum", "mean", "amax", "amin", "logsumexp"])
    whole = name in ("sum", "mean") and s.rng.random() < 0.5
    exact = name in ("amax", "amin")
    a = s.pick(
        lambda v: (
            (v.exact or not exact)
            and v.size > 0
            and v.bound * v.size <= 2 * LIMIT
            and (whole or len(v.shape) > 0)
        )
    )
    if a is None:
        return None
    bound = a.bound * a.size if name == "sum" else a.bound + 3
    if whole:
        out = _out((a,), (), bound=bound, exact=a.exact and (name == "sum"))
        return Drawn(f"{a.name}.{name}()", (a,), (out,))
    dim, keep = s.rng.randrange(len(a.shape)), s.rng.random() < 0.3
    shape = tuple(1 if k == dim else n for k, n in enumerate(a.shape) if keep or k != dim)
    out = _out((a,), shape, bound=bound, exact=a.exact and name in ("sum", "amax", "amin"))
    return Drawn(f"{a.name}.{name}({dim}{', keepdim=True' if keep else ''})", (a,), (out,))


def along(s: Scope) -> Drawn | None:
    name = s.rng.choice(["softmax", "log_softmax", "cumsum"])
    a = s.pick(lambda v: len(v.shape) > 0 and v.size > 0 and v.bound * v.size <= LIMIT)
    if a is None:
        return None
    bound = a.bound * a.size if name == "cumsum" else 2 * a.bound + 3
    out = _out((a,), a.shape, bound=bound, exact=a.exact and name == "cumsum")
    return Drawn(f"{a.name}.{name}({s.rng.randrange(len(a.shape))})", (a,), (out,))


def matmul(s: Scope) -> Drawn | None:
    a = s.pick(lambda v: 1 <= len(v.shape) <= 3 and v.size > 0)
    if a is None:
        return None

    def fits(b: Value) -> bool:
        if not 1 <= len(b.shape) <= 3 or not b.size or b.dtype != a.dtype:
            return False
        if a.bound * b.bound * a.shape[-1] > LIMIT:
            return False
        if not s.vectors and (1 in (len(a.shape), len(b.shape)) or len(b.shape) > len(a.shape)):
            return False
        return a.shape[-1] == b.shape[-2 if len(b.shape) > 1 else 0] and (
            len(b.shape) < 3 or len(a.shape) != 3 or a.shape[0] == b.shape[0]
        )

    b = s.pick(fits)
    if b is None:
        return None
    rows, columns = a.shape[:-1][-1:], b.shape[1:][-1:]
    batch = a.shape[:-2] or b.shape[:-2]
    shape = batch + rows + (columns if len(b.shape) > 1 else ())
    if math.prod(shape) > SIZE:
        return None
    plain = len(a.shape) == len(b.shape) == 2
    out = _out((a, b), shape, bound=a.bound * b.bound * a.shape[-1], edges=plain, maybe=not plain)
    return Drawn(f"{a.name} @ {b.name}", (a, b), (out,))


# --- shapes ---------------------------------------------------------------------------------------------------


def view(s: Scope) -> Drawn | None:
    a = s.pick()
    if a is None:
        return None
    n, x, rng = len(a.shape), a.name, s.rng
    k = rng.randrange(n) if n else 0
    rest = a.shape[:k] + a.shape[k + 1 :]
    options: list[tuple[str, tuple[int, ...]]] = [(f"{x}.unsqueeze({k})", (*a.shape[:k], 1, *a.shape[k:]))]
    options.append((f"{x}[None]", (1, *a.shape)))
    options.append((f"{x}.view_as({x})", a.shape))
    if n:
        options.append((f"{x}.reshape(-1)", (a.size,)))
        options.append((f"{x}.flatten()", (a.size,)))
    if n and a.size:
        at = rng.randrange(a.shape[k])
        options += [(f"{x}.select({k}, {at})", rest)] * 2
        options.append((f"{x}[{at % a.shape[0]}]", a.shape[1:]))
        new = (*a.shape[:k], a.shape[k] - at, *a.shape[k + 1 :])
        options.append((f"{x}.narrow({k}, {at}, {a.shape[k] - at})", new))
        options.append((f"{x}[{at % a.shape[0]}:]", (a.shape[0] - at % a.shape[0], *a.shape[1:])))
        options.append((f"{x}[::2]", ((a.shape[0] + 1) // 2, *a.shape[1:])))
    if n < 3 and a.size <= SIZE // 2:
        options.append((f"{x}.expand({', '.join(map(str, (2, *a.shape)))})", (2, *a.shape)))
    if n >= 2:
        order = rng.sample(range(n), n)
        options.append((f"{x}.permute({', '.join(map(str, order))})", tuple(a.shape[i] for i in order)))
        options.append((f"{x}.transpose(0, {n - 1})", (a.shape[-1], *a.shape[1:-1], a.shape[0])))
        options.append((f"{x}.diagonal()", (*a.shape[2:], min(a.shape[:2]))))
    if n == 2:
        options.append((f"{x}.t()", a.shape[::-1]))
    if n and a.shape[k] == 1:
        options.append((f"{x}.squeeze({k})", rest))
    code, shape = rng.choice(options)
    copies = "reshape" in code or "flatten" in code  # perhaps: then it is no view and its node is another one
    out = _view(
        a,
        shape,
        leaf=a.leaf and n == 1 and "flatten" in code,  # that is the tensor itself
        edges=not copies,
        indexed=copies and a.indexed,
        maybe=copies or a.maybe,
        expanded="expand" in code or a.expanded,
        permuted=a.permuted or any(name in code for name in ("permute", "transpose", ".t()", "diagonal")),
        reshaped=a.reshaped or (copies and a.strided),
    )
    return Drawn(code, (a,), (out,))


def several(s: Scope) -> Drawn | None:
    """Ops with several results."""
    name = s.rng.choice(["unbind", "unbind", "split", "chunk", "max", "min"])
    a = s.pick(lambda v: any(v.shape) and v.size > 0 and (v.exact or name not in ("max", "min")))
    if a is None:
        return None
    k = s.rng.randrange(len(a.shape))
    size = a.shape[k]
    rest = a.shape[:k] + a.shape[k + 1 :]
    if name in ("max", "min"):
        index = _out((a,), rest, dtype="int64", grad=False)
        return Drawn(f"{a.name}.{name}({k})", (a,), (_out((a,), rest, indexed=True), index))
    if size > 4:
        return None
    if name == "unbind":
        outs = tuple(_view(a, rest, multi=True, maybe=a.maybe or size == 1) for _ in range(size))
        return Drawn(f"{a.name}.unbind({k})", (a,), outs)
    step = s.rng.randint(1, 2) if name == "split" else -(-size // 2)
    code = f"{a.name}.split({step}, {k})" if name == "split" else f"{a.name}.chunk(2, {k})"
    sizes = [min(step, size - start) for start in range(0, size, step)]
    one = len(sizes) == 1  # then fastgrad lets it be changed
    shapes = [(*a.shape[:k], n, *a.shape[k + 1 :]) for n in sizes]
    return Drawn(code, (a,), tuple(_view(a, shape, multi=True, maybe=a.maybe or one) for shape in shapes))


def join(s: Scope) -> Drawn | None:
    a = s.pick(lambda v: v.size <= SIZE // 3 and v.shape != (0,) and "cat" not in s.without)
    if a is None:
        return None
    b = s.pick(lambda v: v.shape == a.shape and v.dtype == a.dtype)
    c = s.pick(lambda v: v.shape == a.shape and v.dtype == a.dtype)
    parts = (a, b, c)[: s.rng.randint(2, 3)]
    names = ", ".join(v.name for v in parts)
    if a.shape and s.rng.random() < 0.5:
        k = s.rng.randrange(len(a.shape))
        shape = (*a.shape[:k], a.shape[k] * len(parts), *a.shape[k + 1 :])
        return Drawn(f"lib.cat([{names}], {k})", parts, (_out(parts, shape),))
    if len(a.shape) > 2:
        return None
    return Drawn(f"lib.stack([{names}], 0)", parts, (_out(parts, (len(parts), *a.shape)),))


def index(s: Scope) -> Drawn | None:
    a = s.pick(lambda v: len(v.shape) > 0 and v.size > 0)
    if a is None:
        return None
    k = s.rng.randrange(len(a.shape))
    places = [s.rng.randrange(a.shape[k]) for _ in range(s.rng.randint(1, 3))]
    shape = (*a.shape[:k], len(places), *a.shape[k + 1 :])
    if math.prod(shape) > SIZE:
        return None
    kind = s.rng.choice(["index", "index_select", "gather"])
    if kind in s.without:
        return None
    if kind == "index":
        code = f"{a.name}[{':, ' * k}lib.tensor({places})]"
    elif kind == "index_select":
        code = f"{a.name}.index_select({k}, lib.tensor({places}))"
    else:
        line = [1] * k + [len(places)] + [1] * (len(a.shape) - k - 1)
        code = f"{a.name}.gather({k}, lib.tensor({places}).reshape({line}).expand({list(shape)}))"
    return Drawn(code, (a,), (_out((a,), shape, edges=False),))


def cut(s: Scope) -> Drawn | None:
    a = s.pick()
    return (
        None if a is None else Drawn(f"{a.name}.detach()", (a,), (_view(a, a.shape, grad=False, family=""),))
    )


def function(s: Scope) -> Drawn | None:
    """A custom function; `run.functions` defines them."""
    name = s.rng.choice(
        [
            "Double",
            "Square",
            "Output",
            "Within",
            "Pair",
            "Nothing",
            "Raw",
            "Short",
            "Stop",
            "Once",
            "Inner",
            "Hooked",
        ]
    )
    a = s.pick(lambda v: v.bound**2 <= LIMIT)
    if a is None:
        return None
    if name == "Pair":
        b = s.pick(lambda v: v.dtype == a.dtype)
        return Drawn(
            f"F.Pair.apply({a.name}, {b.name})",
            (a, b),
            (_out((a,), a.shape, sibling=True), _out((b,), b.shape, sibling=True, output_nr=1)),
        )
    bound = a.bound**2 if name in ("Square", "Within", "Once") else 2 * a.bound
    out = _out((a,), a.shape, bound=bound, exact=a.exact and name != "Output")
    return Drawn(f"F.{name}.apply({a.name})", (a,), (out,))


# --- in place -------------------------------------------------------------------------------------------------

_INPLACE: dict[str, tuple[Callable[[float, float], float], bool, bool]] = {
    "{a}.mul_(2)": (lambda a, b: 2 * a, True, False),
    "{a}.add_(1)": (lambda a, b: a + 1, True, False),
    "{a}.neg_()": (lambda a, b: a, True, False),
    "{a}.relu_()": (lambda a, b: a, True, True),
    "{a}.tanh_()": (lambda a, b: 1.0, False, False),
    "{a}.sigmoid_()": (lambda a, b: 1.0, False, False),
    "{a}.clamp_(-1, 2)": (lambda a, b: 2.0, True, True),
    "{a}.zero_()": (lambda a, b: a, True, False),
    "{a}.fill_(3.0)": (lambda a, b: a + 3.0, True, False),
    "{a}.masked_fill_({a} > 1, 2.0)": (lambda a, b: a + 2, True, True),
    "{a}.add_({b})": (lambda a, b: a + b, True, False),
    "{a}.sub_({b})": (lambda a, b: a + b, True, False),
    "{a}.mul_({b})": (lambda a, b: a * b, True, False),
    "{a}.copy_({b})": (max, True, False),
    "{a}[0] = {b}": (max, True, False),
    "{a}[...] = {b}": (max, True, False),
    "{a} += {b}": (lambda a, b: a + b, True, False),
    "{a} *= {b}": (lambda a, b: a * b, True, False),
    "F.Dirty.apply({a})": (lambda a, b: 2 * a, True, False),
}


def inplace(s: Scope, allowed: Callable[[Value], bool], itself: bool) -> Drawn | None:
    """An op that changes its first operand, perhaps with operands that share its memory."""
    code = s.rng.choice([code for code in _INPLACE if not any(name in code for name in s.without)])
    bound, stays, needs = _INPLACE[code]
    a = s.pick(lambda v: (v.exact or not needs) and allowed(v) and bound(v.bound, 1.0) <= LIMIT)
    if a is None:
        return None
    ins: tuple[Value, ...] = (a,)
    after = replace(a, bound=bound(a.bound, 1.0), exact=a.exact and stays)
    if "{b}" in code:
        target = a.shape[1:] if "[0]" in code else a.shape
        if "[0]" in code and (not a.shape or not a.size):
            return None
        b = s.pick(
            lambda v: (
                _broadcast(target, v.shape) == target
                and bound(a.bound, v.bound) <= LIMIT
                and v.dtype == a.dtype
                and (itself or v.base != a.base)
            )
        )
        if b is None:
            return None
        ins = (a, b)
        after = replace(after, bound=bound(a.bound, b.bound), exact=after.exact and b.exact)
        after.grad = a.grad or b.grad
        code = code.format(a=a.name, b=b.name)
    else:
        code = code.format(a=a.name)
    return Drawn(code, ins, (), changes=after)


FAMILIES: dict[Callable[[Scope], Drawn | None], int] = {
    unary: 9, binary: 8, reduce: 4, along: 2, matmul: 3, view: 7, several: 4, join: 3, index: 2, cut: 1,
}  # fmt: skip
