"""Ops as declared, and the native table that the compiled dispatch reads.

`Op` is an entry of the op table: how it is called, which kernel it runs and how to differentiate it
with regard to each input. Declaring an op here is all that dispatch, recording and the sweep need.

Note [What a rule says by its parameters]: the names of a derivative's parameters are those of the op's inputs
(their values are saved), ``y``, ``y1`` or ``y2`` for the op's outputs, ``g`` for the gradient of the output (``gs`` for
all of several), the op's integers by their declared names, and ``sizes`` for the sizes of the input in question
(its rank first). In rules of ops with any number of inputs ``position`` is the input's number, ``before`` the sum
of the integers that belong to the inputs before it and ``own`` its own integer.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastgrad.native.build.loader import WORDS
from fastgrad.native.contracts.element_types import BOOL, COMPLEX, FLOATS, INEXACT, REAL
from fastgrad.native.contracts.frame import AS_COMPLEX, REAL_PART
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.integers import steps_of
from fastgrad.native.contracts.limits import MAX_OPS, RULES, SAVED_INPUTS, SAVED_SLOTS
from fastgrad.native.contracts.ops import (
    ANY_NUMBER,
    ELEMENTWISE,
    ENV_GRADS,
    ENV_SAVED,
    EVERY_GRADIENT,
    FIRST,
    FUSED,
    HALVES_ON_GPUS,
    HOLOMORPHIC,
    IDENTITY,
    IN_FLOAT32,
    JOINT,
    MASK_LAST,
    OUT_BOOL,
    OUT_COMPLEX,
    OUT_REAL,
    PROGRAM,
    PROMOTE,
    SHAPE_REDUCED,
    STRUCTURED,
    SUMMED,
)
from fastgrad.native.contracts.records import OPINFO, RUNTIME
from fastgrad.native.host.tables import BY_NAME, OPS
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.rules import (
    Recorded,
    Trace,
    anywhere,
    call_of,
    install,
    parameters,
    places_of,
    taking,
    trace,
)
from fastgrad.ops.saving import ARGUMENTS, OUTPUTS, saving


class Op:
    """An entry of the op table.

    Parameters
    ----------
    name : str
        The op's name; the node of a call is called ``<Node>Backward0``.
    kind : int
        One of the kinds in `native.contracts.ops`.
    inputs : tuple of str
        Names of the tensor inputs; one name with a star stands for any number. Those with a question mark behind
        them may be None, and at the end also be left out.
    attrs : tuple of str
        Names of the integers of a call; a last one with a star takes the rest. See `native.contracts.integers`.
    kernel : Kernel, optional
    forward : int
        Which view or function, for those kinds.
    flags : int
        Op flags. `IN_FLOAT32` follows for ops whose kernel has none for halves; one that says so is for GPUs as well.
    dtype_rule : int
        The dtype in which an elementwise op computes.
    node : str, optional
        Name of the node class, if it is not the op's name in camel case.
    n_out : int
        Number of outputs.
    edges : int, optional
        How many inputs, from the first on, may have a gradient: all if not given. Behind them stand numbers, masks
        and indices; a node has no edges for them.
    called : str, optional
        What programs call it, and messages, if that is not its name.
    saved_as : str, optional
        What PyTorch calls the inputs, and behind an arrow the outputs: "self index -> values indices". By default
        ``x`` and ``a`` are self, ``b`` is other, ``v`` is grad_output, outputs are result or result0, result1, and
        anything else is what it is called here. An input with ``>`` before its name is an output to PyTorch, which is
        saved behind the inputs.
    derivatives : str, optional
        The inputs in the order in which derivatives are computed, by PyTorch's names, where it is not alphabetical.
    statistics : tuple of str
        Inputs that are float32 where others are halves, because an op that `KEEPS_FLOAT32` has made them.
    """

    def __init__(
        self,
        name: str,
        kind: int,
        inputs: tuple[str, ...],
        attrs: tuple[str, ...] = (),
        *,
        kernel: Kernel | None = None,
        forward: int = 0,
        flags: int = 0,
        dtype_rule: int = PROMOTE,
        node: str | None = None,
        n_out: int = 1,
        edges: int | None = None,
        called: str = "",
        saved_as: str = "",
        derivatives: str = "",
        statistics: tuple[str, ...] = (),
    ) -> None:
        if len(OPS) >= MAX_OPS:
            raise RuntimeError(f"op table is full ({MAX_OPS} entries)")
        if name in BY_NAME:
            raise ValueError(f"an op named {name!r} exists already")
        if kernel is not None and kind != ELEMENTWISE and kernel.only_wide():
            flags |= IN_FLOAT32 | (HALVES_ON_GPUS if kernel.gpu_dtypes and not flags & IN_FLOAT32 else 0)
        self.name = name
        self.kind = kind
        self.takes_numbers = kind == ELEMENTWISE or (kind == STRUCTURED and forward == SHAPE_REDUCED)
        self.inputs = tuple(n.rstrip("?") for n in inputs)
        self.attrs = attrs
        self.kernel = kernel
        self.node = node or "".join(part.capitalize() for part in name.split("_")) + "Backward0"
        self.facts = {
            "kind": kind, "n_out": n_out, "flags": flags, "kernel": kernel.id if kernel else 0,
            "dtype_rule": dtype_rule, "forward": forward,
            "statistics": sum(1 << self.inputs.index(name) for name in statistics),
        }  # fmt: skip
        self.n_out = n_out
        self.edges = edges
        self.saved_as = saved_as
        self.derivatives = derivatives
        self.rules: dict[int, Any] = {}  # of each input a callable, or one for each output
        self.joint = False
        self.calls: set[int] = set()  # the numbers of ops that derivatives call
        self.recorded: dict[int, Recorded] = {}  # of inputs whose gradients have a node of another op
        self.conjugates = bool(flags & HOLOMORPHIC)  # Note [Complex gradients] in `ops.complex_numbers`
        self.numbered: Op | None = None  # what the operator becomes with a number on its right
        self.reflected: tuple[Op | None, Op | None] = (
            None,
            None,
        )  # with one on its left; what that gets of the tensor
        self.called = called or name.partition(".")[0]
        # Under which programs call it, if nothing but the call is to be done.
        self.names: tuple[str, ...] = ()
        self.inplace = False
        self.id = len(OPS)
        OPS.append(self)
        BY_NAME[name] = self
        self.saving = saving(self.inputs, n_out, saved_as, derivatives)
        self._describe(inputs, attrs, edges)

    def _describe(self, inputs: tuple[str, ...], attrs: tuple[str, ...], edges: int | None) -> None:
        """Tell the runtime what a call of the op takes, and what a node of it saves."""
        most = ANY_NUMBER if inputs and inputs[-1].startswith("*") else len(inputs)
        needed = [k + 1 for k, n in enumerate(inputs) if not n.endswith("?")]
        absent = sum([1 << k for k, n in enumerate(inputs) if n.endswith("?")])
        more = sum([a.startswith("*") for a in attrs])
        facts = {
            "n_in": most if edges is None else edges, "id": self.id, "most": most,
            "least": max(needed, default=min(len(inputs), 1)),
            "optional": -1 if absent and most == ANY_NUMBER else absent,
            "n_ints": len(attrs) - more, "integers": steps_of(attrs), "more_ints": int(more > 0),
            "saved_order": self.saving.places_word, "order": self.saving.inputs_word,
        }  # fmt: skip
        if self.facts["flags"] & IN_FLOAT32 and self.kernel is not None:
            changed = self.kernel.inputs_updated()
            facts["written"] = sum(1 << k for k, name in enumerate(self.inputs) if name in changed)
        at = self.id * OPINFO.words
        for field, value in (self.facts | facts).items():
            if value:  # the table begins with zeros, which for a gradient says that there is none
                WORDS[at + _PLACES[field]] = value

    def add_flags(self, flags: int) -> None:
        """Declare more of an op."""
        self.facts["flags"] |= flags
        self.write("flags", self.facts["flags"])

    def variant(self, suffix: str, node: str, edges: int | None = None, flags: int = 0) -> Op:
        """The op under the name ``<name>.<suffix>`` for calls that PyTorch records as another node.

        Parameters
        ----------
        suffix : str
        node : str
            Name of the node class.
        edges : int, optional
            How many inputs may have a gradient, if others than those of the op.
        flags : int
            Besides those of the op.
        """
        other = Op(
            f"{self.name}.{suffix}", self.kind, self.inputs, self.attrs, kernel=self.kernel, node=node,
            n_out=self.n_out, forward=self.facts["forward"], flags=self.facts["flags"] | flags,
            dtype_rule=self.facts["dtype_rule"], edges=self._read("n_in", 0) if edges is None else edges,
            called=self.called, saved_as=self.saved_as, derivatives=self.derivatives,
        )  # fmt: skip
        for field in ("least", "optional", "statistics"):
            other.write(field, self._read(field, 0))
        other.recorded = {k: by for k, by in self.recorded.items() if k in self.rules}
        other.rules = {k: rule for k, rule in self.rules.items() if edges is None or k < edges}
        other.calls = self.calls
        other.conjugates = self.conjugates
        if edges is None:
            for field in ("joint", "joint_wanted"):
                other.write(field, self._read(field, 0))
        for k in other.rules:
            for field in _OF_A_RULE:
                other.write(field, self._read(field, k), k)
        return other

    def also_saves(self, name: str, *saved: str) -> None:
        """Save more where input `name` requires grad than its derivative reads, as PyTorch's node does.

        Parameters
        ----------
        name : str
        *saved : str
            Names of inputs or outputs.
        """
        k = self._position(name)
        self.write("save", self._read("save", k) | self._mask_of(saved), k)

    def with_numbers(
        self, *, right: Op | None = None, left: Op | None = None, prepared: Op | None = None
    ) -> None:
        """Name the ops that the operator becomes where one side is a Python number.

        Parameters
        ----------
        right : Op, optional
            For ``tensor (operator) number``.
        left : Op, optional
            For ``number (operator) tensor``; it takes the tensor first.
        prepared : Op, optional
            What `left` gets of the tensor.
        """
        self.numbered, self.reflected = right, (left, prepared)
        for field, op in (("numbered", right), ("reflected", left), ("prepared", prepared)):
            if op is not None:
                self.write(field, op.id)

    @property
    def doc(self) -> str:
        """What the docstring of the op's formula says; nothing for other ops."""
        formula = self.kernel.formula if self.kernel else None
        return formula.__doc__ or "" if formula else ""

    @property
    def commutes(self) -> bool:
        """Whether the operands may change places: with a number on the left the op is called with it on the right."""
        return self.reflected[0] is self

    def kernels(self) -> set[Kernel]:
        """The op's kernel, and those of the ops that its derivatives call."""
        ops = (self, *(OPS[number] for number in self.calls))
        return {op.kernel for op in ops if op.kernel is not None}

    def write(self, field: str, value: int, index: int = 0) -> None:
        """Change a field of the op's record, which the runtime reads."""
        WORDS[self.id * OPINFO.words + _PLACES[field] + index] = value

    def _position(self, name: str) -> int:
        places = places_of(self.inputs)
        if name not in places:
            raise ValueError(f"op {self.name!r} has no input {name!r}; inputs are {', '.join(places)}")
        return places[name]

    def _save_mask(self, rule: Callable[..., Any]) -> int:
        return self._mask_of(parameters(rule))

    def _mask_of(self, names: Iterable[str]) -> int:
        """The bits of the places of what is named: see Note [Saved places] in `native.contracts.ops`."""
        mask = 0
        places = places_of(self.inputs)
        for parameter in names:
            place = places.get(parameter)
            if place is not None and parameter in self.inputs:
                mask |= 1 << place
            elif parameter in OUTPUTS:
                mask |= 1 << SAVED_INPUTS + OUTPUTS.index(parameter)
        return mask

    def _write_masks(self, mask: int, k: int) -> None:
        """What the derivative of input `k` reads, which is what a node saves for it unless more is asked for.

        A derivative that is a node of its own saves all that its own derivatives read, as PyTorch's do, whichever of
        its inputs require grad.
        """
        for field in ("reads", "save"):
            self.write(field, mask, k)
        if "BackwardBackward" in self.node:
            masks = [self._read("reads", other) for other in self.rules]
            for other in self.rules:
                self.write("save", functools.reduce(operator.or_, masks), other)

    def identity(self, name: str) -> None:
        """The gradient with regard to input `name` is the gradient of the output (broadcasting aside)."""
        k = self._position(name)
        self.rules[k] = lambda g: g
        self.write("grad_kind", IDENTITY, k)

    def partial(self, name: str, *, node: str = "") -> Callable[[Callable[..., Any]], Any]:
        """Declare the partial derivative of an elementwise op with regard to input `name`.

        Parameters
        ----------
        name : str
        node : str
            The name of the node that the gradient has where it is recorded, if PyTorch has an op for it. The decorator
            then returns that op, whose inputs are ``v``, the gradient, and what the derivative reads; its derivatives
            by the latter are to be declared.
        """
        return self._elementwise_rule(name, times_g=True, node=node)

    def elementwise_vjp(
        self, name: str, *, node: str = "", flags: int = 0, **options: Any
    ) -> Callable[[Callable[..., Any]], Any]:
        """Declare the whole product of gradient and derivative, for ops that select: 0 * inf never arises.

        Parameters are those of `partial`, and `flags` of the op that computes the product. `options` are as in
        `elementwise`; ``over_complex`` among them is the rule for complex numbers, if it is another one.
        """
        return self._elementwise_rule(name, times_g=False, node=node, flags=flags, **options)

    def _elementwise_rule(
        self,
        name: str,
        times_g: bool,
        node: str,
        flags: int = 0,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Any]:
        def declare(rule: Callable[..., Any]) -> Any:
            if self.facts["flags"] & HOLOMORPHIC:
                raise ValueError(f"derivatives of {self.name} must all be kernels, or none of them")
            k = self._position(name)
            names = [p for p in parameters(rule) if p != "g"]
            order = [*self.inputs, *OUTPUTS]
            if sorted(names, key=order.index) != names:
                raise ValueError(
                    f"parameters of the derivative of {self.name} must keep the order of {order}"
                )
            kernel = Kernel(
                f"{self.name}_d{name}", "elementwise:build", rule, elements=_conditions(names),
                dtypes=INEXACT if self.conjugates else FLOATS, forms=(FLAT, STRIDED), inputs=("g", *names),
                times_g=times_g, **options,
            )  # fmt: skip
            inner = self._derivative_op(kernel, name, names, node, flags)
            everywhere = anywhere(rule, times_g, inner, bool(node), options.get("over_complex"))
            self.rules[k] = taking(("g", *names), everywhere)
            self._write_masks(self._save_mask(rule), k)
            self.calls.add(inner.id)
            self.write("grad", inner.id, k)
            self.write("grad_kind", FUSED, k)
            return inner if node else rule

        return declare

    def _derivative_op(self, kernel: Kernel, name: str, read: list[str], node: str, flags: int) -> Op:
        """The op that a pass runs as derivative by input `name`; `read` is what it takes behind the gradient."""
        flags |= MASK_LAST if _conditions(read) else 0
        if not node:
            inputs = ("g", *read)
            return Op(
                f"{self.name}_d{name}", ELEMENTWISE, inputs, kernel=kernel, dtype_rule=FIRST, flags=flags
            )
        tensors = [n for n in read if n in OUTPUTS or self._position(n) < self._read("n_in", 0)]
        called = [self.saving.names[self._mask_of((n,)).bit_length() - 1] for n in read]
        inner = Op(
            f"{self.name}_d{name}", ELEMENTWISE, ("v", *read), kernel=kernel, dtype_rule=FIRST, node=node,
            flags=flags, edges=1 + len(tensors), saved_as=" ".join(("grad_output", *called)),
        )  # fmt: skip
        inner.vjp("v")(taking(("g", *read), call_of(inner)))  # it is linear in the gradient
        return inner

    def vjp(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the gradient with regard to input `name` in the language of tensors: see `ops.rules`."""

        def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
            k = self._position(name)
            if self.facts["flags"] & EVERY_GRADIENT and "sizes" in parameters(rule):
                raise ValueError(
                    f"derivatives of {self.name} must do without the sizes of inputs that need none"
                )
            if self.conjugates:
                self.add_flags(HOLOMORPHIC)
            self.rules[k] = rule
            self._write_masks(self._save_mask(rule), k)
            program = trace(self, rule)
            fused = self._one_kernel(program, rule)
            self.calls.update(program.ops)
            self.write("grad", fused if fused is not None else program.install(), k)
            self.write("grad_kind", FUSED if fused is not None else PROGRAM, k)
            if self.inputs[k].startswith("*"):  # every further input is like this one
                for other in range(k, RULES):
                    self.rules[other] = rule
                    for field in _OF_A_RULE:
                        self.write(field, self._read(field, k), other)
            return rule

        return declare

    def vjp_sum(self, name: str, *rules: Callable[..., Any] | None) -> None:
        """Declare the gradient with regard to input `name` of an op whose outputs may all have a gradient.

        It is the sum of one rule for each output, as for `vjp`, in which ``g`` is the gradient of that output; those of
        outputs without a gradient, and None for one that does not depend on the input, are left out.
        """
        k = self._position(name)
        self.rules[k] = rules
        self._write_masks(self._mask_of(n for rule in rules if rule for n in parameters(rule)), k)
        programs = [trace(self, rule) if rule else None for rule in rules]
        self.calls.update(*(program.ops for program in programs if program))
        self.write("grad", install([program.install() if program else 0 for program in programs]), k)
        self.write("grad_kind", SUMMED, k)

    def recorded_by(self, derivative: Op, *read: str, results: Sequence[int | str]) -> None:
        """Let gradients of inputs have one node where they are recorded, as in PyTorch, that of `derivative`.

        They are computed by the rules of this op. `derivative` takes the gradient, what is `read` of this op (inputs,
        outputs), behind that its own `results`, which are gradients of inputs by their numbers or something that
        this op saved by its name, and the integers of this op. Its derivatives are declared with `vjp_sum`.
        """
        by = Recorded(derivative, read, tuple(results))
        self.recorded |= {k: by for k in results if isinstance(k, int)}

    def joint_vjp(self, *names: str, by: Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the gradients of several inputs, the first ones, as they come from one call of the op `by`.

        A pass calls `by` with the gradient, what its other inputs name (inputs of this op, outputs, in this
        order) and the integers of the call: see Note [Joint gradients] in `native.programs`. The rule itself is called
        on tensors where what it computes is recorded: it returns a tuple and consists of differentiable ops.
        """

        def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
            if names != self.inputs[: len(names)]:
                raise ValueError(f"the joint gradients of {self.name} must be those of its first inputs")
            self.joint = True
            for k in range(len(names)):
                self.rules[k] = rule
                self._write_masks(self._mask_of(by.inputs[1:]), k)
                self.write("grad_kind", JOINT, k)
            self._join((), by)
            return rule

        return declare

    def joint_where_all(self, *names: str, by: Op) -> None:
        """Let a pass that wants the gradients of all these inputs get them, and those behind, by one call of `by`.

        They have derivatives of their own, which other passes run. `by` gets what it does with `joint_vjp`, and reads
        what the derivative of the first input does.
        """
        if self._read("reads", 0) != self._mask_of(by.inputs[1:]):
            raise ValueError(
                f"{by.name} must read what the derivative of {self.inputs[0]} by {self.name} does"
            )
        self._join(names, by)

    def _join(self, names: Sequence[str], by: Op) -> None:
        self.calls.add(by.id)
        self.write("joint", by.id)
        self.write("joint_wanted", sum(1 << self._position(name) for name in names))

    def saved_for(self, k: int) -> tuple[str, ...]:
        """What a node saves where input `k` requires grad, by the names that rules use."""
        mask = self._read("save", k)
        outputs = (name for i, name in enumerate(OUTPUTS) if mask >> SAVED_INPUTS + i & 1)
        return (*(name for i, name in enumerate(self.inputs[:SAVED_INPUTS]) if mask >> i & 1), *outputs)

    def saved_names(self) -> set[str]:
        """PyTorch's names of what nodes of the op may save."""
        mask = 0
        for k in range(RULES):
            mask |= self._read("save", k)
        return {name for place, name in self.saving.names.items() if mask >> place & 1}

    def _one_kernel(self, program: Trace, rule: Callable[..., Any]) -> int | None:
        """The op that a rule consists of, if it is one kernel over the gradient and what was saved, in order."""
        if len(program.instructions) != 1:
            return None
        saved = self._save_mask(rule)
        places = [ENV_SAVED + place for place in range(SAVED_SLOTS) if saved >> place & 1]
        [words] = program.instructions
        op, operands = OPS[words[0]], [ENV_GRADS, *places]
        fits = op.kind == ELEMENTWISE and words[1:] == [len(operands), *operands, 0]
        return op.id if fits else None

    def _read(self, field: str, index: int) -> int:
        return WORDS[self.id * OPINFO.words + _PLACES[field] + index]

    def may_lack(self, k: int) -> bool:
        """Whether operand `k` may be None."""
        return bool(self._read("optional", 0) >> min(k, 63) & 1)

    def argument(self, k: int) -> str:
        """The name under which programs pass operand `k`."""
        name = self.inputs[min(k, len(self.inputs) - 1)].lstrip("*")
        return ARGUMENTS.get(name, name)

    def __repr__(self) -> str:
        return f"<Op {self.name}({', '.join(self.inputs + self.attrs)})>"


_PLACES = {field: RUNTIME.fields["ops"][0] + place for field, (place, *_) in OPINFO.fields.items()}
"""Where the fields of the first op's record lie in the record of the runtime."""
_OF_A_RULE = ("grad_kind", "grad", "save", "reads")  # fields of a record that each derivative of the op has


def elementwise(
    name: str,
    *,
    rule: int = PROMOTE,
    flags: int = 0,
    node: str | None = None,
    dtypes: tuple[int, ...] | None = None,
    hint: str = "",
    edges: int | None = None,
    saved_as: str = "",
    derivatives: str = "",
    called: str = "",
    public: bool | tuple[str, ...] = (),
    inplace: bool = True,
    over_complex: bool | Callable[..., Any] = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an elementwise op by its formula over scalars.

    The names of the formula's parameters are the names of the inputs; `m` is the vocabulary of functions and
    ``c(1)`` a constant in the dtype of the loop (see `ops.vocabulary`). `dtypes` are those for which there is a kernel
    (all that `rule` allows if not given), `hint` says what to do for others; `edges` is how many inputs may have a
    gradient; for `saved_as` and `derivatives` see `Op`. A `condition`, which is a bool, stands last.

    With `public`, programs find the op as a function of the package and a method of `Tensor`, with the docstring of the
    formula: under its name, and under further ones if `public` is a tuple. Each name has its in-place form, unless
    `inplace` is false.

    `over_complex` says that there are kernels for complex dtypes as well, with this formula or another one: see Note
    [Complex gradients] in `ops.complex_numbers` for what becomes of the derivatives, Note [Chosen loops] in
    `kernels.cpu.elementwise` for `options`.
    """

    def declare(formula: Callable[..., Any]) -> Op:
        inputs = parameters(formula)
        conditions = _conditions(inputs)
        extra = MASK_LAST if conditions else 0
        elements = conditions | {"out": code for flag, code in _RESULTS.items() if flags & flag}
        kernel = Kernel(
            name, "elementwise:build", formula,
            dtypes=(dtypes or (REAL if rule == PROMOTE else FLOATS)) + (COMPLEX if over_complex else ()),
            forms=(FLAT, STRIDED, INPLACE), hint=hint, inputs=inputs, elements=elements,
            **({"over_complex": over_complex} if callable(over_complex) else {}), **options,
        )  # fmt: skip
        op = Op(
            name, ELEMENTWISE, inputs, kernel=kernel, dtype_rule=rule, flags=flags | extra, node=node,
            edges=len(inputs) - len(conditions) if edges is None else edges, called=called, saved_as=saved_as,
            derivatives=derivatives,
        )  # fmt: skip
        op.conjugates = bool(over_complex)
        if public:
            op.names = (name, *public) if isinstance(public, tuple) else (name,)
            op.inplace = inplace
        return op

    return declare


_RESULTS = {OUT_BOOL: BOOL, OUT_REAL: REAL_PART, OUT_COMPLEX: AS_COMPLEX}  # dtypes of results, by flags


def _conditions(names: Iterable[str]) -> dict[str, int]:
    """The operand of a formula that is a bool and takes no part in promotion, if there is one, with its dtype."""
    return {name: BOOL for name in names if name == "condition"}


AccumulateGrad = Op("accumulate_grad", 0, ("variable",), node="torch::autograd::AccumulateGrad")
CustomFunction = Op("custom_function", 0, ("*inputs",))
Boundary = Op("boundary", 0, ("*values",), node="BackwardHookFunctionBackward")
