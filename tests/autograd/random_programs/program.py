"""What a program is made of, and how it reads."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Step(NamedTuple):
    """One thing that a hook does before it returns."""

    verb: str
    argument: object = None

    def __str__(self) -> str:
        return self.verb if self.argument is None else f"{self.verb} {self.argument}"


class Hook(NamedTuple):
    """A hook to register: where, what it does when it fires, what it returns."""

    id: int
    kind: str  # one of KINDS
    targets: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    result: str = "None"
    edges: bool = (
        True  # log a node's gradients of inputs too, because both libraries give the node the same edges
    )
    late: bool = False  # added by a hook, so perhaps to a node that is running

    def __str__(self) -> str:
        steps = "; ".join(map(str, self.steps))
        body = f"do({steps}); " if steps else ""
        return f"h{self.id} = {self.kind}({', '.join(self.targets)}, lambda: {body}return {self.result})"


KINDS = (
    "tensor", "retain", "post accumulate", "node pre", "node post", "leaf pre", "leaf post", "multi all", "multi any",
)  # fmt: skip


class Leaf(NamedTuple):
    name: str
    shape: tuple[int, ...]
    values: tuple[int, ...]
    dtype: str = "float64"
    requires_grad: bool = True

    def __str__(self) -> str:
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"{self.name} = lib.tensor({list(self.values)}, dtype=lib.{self.dtype}).reshape({self.shape}){grad}"


class Apply(NamedTuple):
    """Source code that makes tensors, or that changes one."""

    outs: tuple[str, ...]
    code: str
    ins: tuple[str, ...]
    within: str = ""  # the context: "no_grad" or the name of a pair of saved-tensor hooks

    def __str__(self) -> str:
        text = f"{', '.join(self.outs)} = {self.code}" if self.outs else self.code
        return f"with {self.within}: {text}" if self.within else text


class Register(NamedTuple):
    hook: Hook

    def __str__(self) -> str:
        return str(self.hook)


class Remove(NamedTuple):
    id: int

    def __str__(self) -> str:
        return f"h{self.id}.remove()"


class Forget(NamedTuple):
    """Drop a tensor, or its gradient."""

    name: str
    grad: bool = False

    def __str__(self) -> str:
        return f"{self.name}.grad = None" if self.grad else f"del {self.name}"


class Root(NamedTuple):
    name: str
    seed: tuple[int, ...] | None = None  # the gradient's values, in the root's shape
    edge: bool = False  # hand over the gradient edge in place of the tensor

    def __str__(self) -> str:
        return f"edge({self.name})" if self.edge else self.name


class Sweep(NamedTuple):
    """A pass: `backward`, or `grad` where it names results."""

    roots: tuple[Root, ...]
    inputs: tuple[Root, ...] = ()
    outs: tuple[str, ...] = ()
    retain: bool | None = None
    create: bool = False
    grad: bool = False
    unused: bool = True
    materialize: bool = False
    within: str = ""  # as of `Apply`

    def __str__(self) -> str:
        return f"with {self.within}: {self._call()}" if self.within else self._call()

    def _call(self) -> str:
        roots = ", ".join(map(str, self.roots))
        seeds = ", ".join("None" if r.seed is None else f"seed{list(r.seed)}" for r in self.roots)
        options = f"retain_graph={self.retain}, create_graph={self.create}"
        inputs = ", ".join(map(str, self.inputs))
        if not self.grad:
            inputs = f", inputs=[{inputs}]" if self.inputs else ""
            return f"lib.autograd.backward([{roots}], [{seeds}], {options}{inputs})"
        more = f", allow_unused={self.unused}, materialize_grads={self.materialize}"
        return (
            f"{', '.join(self.outs)}, = lib.autograd.grad([{roots}], [{inputs}], [{seeds}], {options}{more})"
        )


Statement: TypeAlias = Leaf | Apply | Register | Remove | Forget | Sweep


class Program(NamedTuple):
    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.statements))
