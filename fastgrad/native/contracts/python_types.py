"""The layout of the Python objects that the runtime makes and the slots of their types.

Read by the compiler and the loader. Every object begins with CPython's header, reference count and type.
"""

from __future__ import annotations

from typing import NamedTuple

from fastgrad.native.contracts.limits import N_DTYPES
from fastgrad.native.contracts.record import Part, Record

_HEADER = {"refcount": 1, "type": 1}

TENSOR_OBJECT = Record("tensor_object", **_HEADER, handle=1, generation=1, dict=1, weaklist=1)

NODE_OBJECT = Record(
    "node_object", **_HEADER, handle=1, generation=1,
    tensor_hooks=1, pres=1, posts=1, metadata=1,
    function=1, to_save=1, dirty=1, non_differentiable=1, packed=1, options=1, weaklist=1, lone=3,
)  # fmt: skip
"""`tensor_hooks`: the dict of hooks of the only output, or a tuple of pairs of output number and dict. `function` to
`non_differentiable` and `options` belong to custom functions, `packed` to saved-tensor hooks. `lone`: see Note [Lone
hooks] in `native.backward.hook_dicts`."""

N_HOOK_PLACES = 3
OUTPUT_PLACE, PRE_PLACE, POST_PLACE = range(N_HOOK_PLACES)
"""Where a node's object holds hooks: `tensor_hooks`, `pres`, `posts`."""

# Options of a custom function: undefined gradients stay None; those of outputs that cannot have any do.
NO_MATERIALIZE = 1
NO_MATERIALIZE_CONSTANT = 2

HANDLE_OBJECT = Record(
    "handle_object", **_HEADER, hooks=1, extra=1, id=1, weaklist=1, node=1, generation=1, place=1
)
"""`hooks`: the weak reference to a dict. `node`: instead of it the record of the node on which a hook was registered
as the first of its place, and the generation of that record, as another node's may lie there later."""

CONTEXT_OBJECT = Record(
    "context_object", **_HEADER, on=1, off=1, setting=1, value=1, gives_self=1, tape=1,
    depth=1, applied=1, before=1, thread=1, weaklist=1,
)  # fmt: skip
"""`on` and `off`: modes that it switches. `setting`: the setting that it adds `value` to, or CAPTURE_SETTING, plus 1.
`depth`: how often it has been entered and not left; `applied`: whether it took effect when it was made, and has not
taken that back; `before`: the modes that were in force."""

MODULE_OBJECT = Record("module_object", **_HEADER)
"""What a module is, it keeps in its `__dict__`."""

N_PLANS = 64
PLANNED_OBJECT = Record(
    "planned_object",
    **_HEADER,
    vectorcall=1,
    function=1,
    dict=1,
    weaklist=1,
    uses=1,
    seen=N_PLANS,
    hashes=N_PLANS,
    plans=N_PLANS,
)
"""A function with plans, see Note [Plans] in `native.python.plans`. `plans`: tuples, by the `hashes` of their keys;
`seen`: the hashes of keys that came once."""
PLAN_KEY, PLAN_STEPS, PLAN_RESULT, PLAN_WARNINGS, PLAN_CONSTANTS, PLAN_NAMES = range(6)
"""What a plan holds: bytes with the words of its key, bytes with its steps, the class of its result, the texts of its
warnings or None; and what its key tells apart by identity."""

NATIVE_HOOK_OBJECT = Record(
    "native_hook_object", **_HEADER, dict=1, weaklist=1, function=1, state=1,
    access=1, rank=1, constant=1, op=1, n_numbers=1, differentiable=1, state_dtype=1, state_numel=1, codes=N_DTYPES,
)  # fmt: skip
"""A hook that is compiled code, see Note [Native hooks] in `native.backward.native_hooks`. `state`: a tensor's object.
`rank`: the dimensions that arrays have, or 0 for flat ones. `op`: of a hook over elements its op plus one, of which
`n_numbers` operands are elements of the state. `codes`: by dtype the address of what is compiled, or 0."""
READS, CHANGES, REPLACES, TAKES_LEAF = range(4)
"""What a native hook does with an array: it reads it, it changes it in place, it writes another one, or it gets the
elements of a leaf and of its gradient."""
RECORDED, ON_DEVICE, WRONG_STATE, WRONG_RANK, NEEDS_LEAF, WRONG_CALL, NEVER_MADE, LEAF_HAS_NO_GRAD = range(8)
"""Why a native hook refuses to run."""

OBJECTS = (
    TENSOR_OBJECT, NODE_OBJECT, HANDLE_OBJECT, CONTEXT_OBJECT, MODULE_OBJECT, PLANNED_OBJECT, NATIVE_HOOK_OBJECT,
)  # fmt: skip
NODE_FIELDS = (
    "tensor_hooks", "pres", "posts", "metadata",
    "function", "to_save", "dirty", "non_differentiable", "packed",
)  # fmt: skip
"""The fields that hold references: they stand in a row."""

# What Python may put where compiled code reads it is a tuple or a dict, or else None; compiled code looks at the kind
# when it is put there or, in the `__dict__` of a tensor, when it is read.
TUPLE, DICT = 0, 1
KIND_NAMES = ("tuple", "dict")


class Held(NamedTuple):
    """What an object holds under a name: for a node's object the field of the record, for a tensor's none."""

    name: str
    kind: int
    field: str = ""


HELD = (
    Held("_backward_hooks", DICT), Held("_post_accumulate_grad_hooks", DICT),
    Held("_metadata", DICT, "metadata"), Held("_packed", DICT, "packed"), Held("_to_save", TUPLE, "to_save"),
    Held("_dirty", TUPLE, "dirty"), Held("_non_differentiable", TUPLE, "non_differentiable"),
)  # fmt: skip
HELD_HOOKS, HELD_POST_HOOKS = 0, 1

MODULE_NAMES = (
    "forward", "_has_hooks", "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
    "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_global_forward_pre_hooks", "_global_forward_hooks", "_global_backward_pre_hooks", "_global_backward_hooks",
    "_global_forward_hooks_with_kwargs", "_global_forward_hooks_always_called",
    "_parameters", "_buffers", "_modules",
)  # fmt: skip
"""What compiled code looks up in the `__dict__` of a module, or among the hooks of all modules."""
MODULE_CALL = Part(
    "module_call", module=1, own=1, everywhere=1, n_pre=1, n_backward=1, args=1, kwargs=1, result=1, crossing=1,
    input_node=1, with_kwargs=1, keys=1, key=1,
)  # fmt: skip
"""A call of a module that has hooks: the `__dict__` of the module and the dict of the hooks of all; how many hooks run
before `forward`, and backward; the arguments; the result; what backward hooks need, and the node that the
inputs crossed; which hooks want keyword arguments; which hooks run, and the last one that began."""

KEY_WORDS, KEY_TENSORS, KEY_NAMES = 160, 24, 32
N_CONSTANT_TYPES = 4
"""How many classes of arguments never change, and have one object for each value: a key tells them apart by that."""
PLANNED_CALL = Part(
    "planned_call", n_words=1, n_tensors=1, n_names=1, hash=1,
    handles=KEY_TENSORS, tensors=KEY_TENSORS, places=KEY_TENSORS, names=KEY_NAMES, key=KEY_WORDS,
)  # fmt: skip
"""A call of a function with plans: the key that its arguments make, its tensors as handles, as objects and as places in
the key, and what the key tells apart by identity."""
# The words of the steps of a plan, before the steps and of each step; see Note [Plans].
PLAN_HEAD = Part("plan_head", n_steps=1, n_results=1, kind=1)
PLAN_STEP = Part("plan_step", op=1, n=1, n_outs=1, n_ints=1)
A_TENSOR_RESULT, A_TUPLE_RESULT, A_NAMED_RESULT, NO_RESULT = range(4)
NO_OPERAND, A_VALUE, A_NUMBER = range(3)
"""What an operand of a step is, the first of its two words: nothing, a tensor by its number, or a number of Python's,
with its kind (an int, a float or a bool) added; the second word is the value, or its bits."""

T_OBJECT, T_LONGLONG, T_PYSSIZET = 6, 17, 19
READONLY = 1
METH_NOARGS, METH_FASTCALL = 0x0004, 0x0080

SLOTS = {
    "new": 65, "dealloc": 52, "traverse": 71, "clear": 51, "call": 50, "descr_get": 54, "repr": 66, "hash": 59,
    "richcompare": 67,
    "negative": 30, "absolute": 6, "invert": 27,
    "add": 7, "subtract": 36, "multiply": 29, "true_divide": 37, "floor_divide": 12, "remainder": 34,
    "and": 8, "or": 31, "xor": 38,
    "inplace_add": 14, "inplace_subtract": 23, "inplace_multiply": 18, "inplace_true_divide": 24,
}  # fmt: skip
"""Numbers of the type slots in CPython's stable ABI (``Include/typeslots.h``)."""


class ObjectType:
    """What `PyType_FromSpec` is told of a type.

    Parameters
    ----------
    name : str
        Its name in Python.
    record : Record
        The layout of its objects.
    symbol : str
        What the functions of its slots are called: ``fastgrad_<symbol>_<slot>``.
    slots : tuple of str
        The slots that it fills.
    members : tuple of (str, int, str, int)
        Name, kind, field and flags of each attribute that CPython reads straight from the object.
    collected : bool
        Whether the garbage collector has to know its objects.
    methods : tuple of (str, str, int)
        Name, name of the function behind ``fastgrad_<symbol>_``, and flags of each method.
    held : tuple of int
        Indices in `HELD` of the attributes whose kind is looked at when they are set.
    base : str
        The name of the type that it derives from, if that is another one of these.
    """

    def __init__(
        self, name: str, record: Record, symbol: str, slots: tuple[str, ...],
        members: tuple[tuple[str, int, str, int], ...], collected: bool,
        methods: tuple[tuple[str, str, int], ...] = (),
        held: tuple[int, ...] = (),
        base: str = "",
    ) -> None:  # fmt: skip
        self.name = name
        self.record = record
        self.symbol = symbol
        self.slots = slots
        weak = (
            (("__weaklistoffset__", T_PYSSIZET, "weaklist", READONLY),) if "weaklist" in record.fields else ()
        )
        self.vector = "vectorcall" in record.fields
        called = (("__vectorcalloffset__", T_PYSSIZET, "vectorcall", READONLY),) if self.vector else ()
        self.members = (*weak, *called, *members)
        self.size = max(8 * (at + length) for at, length in record.fields.values())
        self.collected = collected
        self.methods = methods
        self.held = held
        self.base = base


TYPES = (
    ObjectType(
        "TensorBase", TENSOR_OBJECT, "slot", tuple(name for name in SLOTS if name not in ("call", "descr_get", "repr")),
        (("__dictoffset__", T_PYSSIZET, "dict", READONLY),), True,
    ),
    ObjectType(
        "NodeBase", NODE_OBJECT, "node_slot", ("new", "dealloc", "traverse", "clear"),
        (
            ("_handle", T_LONGLONG, "handle", READONLY), ("_options", T_LONGLONG, "options", 0),
            ("_function", T_OBJECT, "function", READONLY),
        ),
        True, held=tuple(k for k, held in enumerate(HELD) if held.field),
    ),
    ObjectType(
        "HandleBase", HANDLE_OBJECT, "handle_slot", ("dealloc",),
        (("_extra", T_OBJECT, "extra", 0), ("id", T_LONGLONG, "id", 0)),
        False,
    ),
    *(
        ObjectType(
            name, CONTEXT_OBJECT, "context_slot", slots,
            (
                ("_on", T_LONGLONG, "on", 0), ("_off", T_LONGLONG, "off", 0), ("_setting", T_LONGLONG, "setting", 0),
                ("_gives_self", T_LONGLONG, "gives_self", 0),
            ),
            True,
            (("__enter__", "enter", METH_NOARGS), ("__exit__", "exit", METH_FASTCALL)), base=base,
        )
        for name, slots, base in (
            ("ContextBase", ("dealloc", "traverse", "clear"), ""),
            ("SwitchBase", ("dealloc", "traverse", "clear", "call"), "ContextBase"),
        )
    ),
    ObjectType("ModuleBase", MODULE_OBJECT, "module_slot", ("call",), (), False),
    ObjectType(
        "Planned", PLANNED_OBJECT, "planned_slot", ("dealloc", "traverse", "clear", "descr_get", "repr"),
        (("__dictoffset__", T_PYSSIZET, "dict", READONLY),), True,
    ),
    ObjectType(
        "NativeHookBase", NATIVE_HOOK_OBJECT, "native_hook_slot", ("dealloc", "traverse", "clear", "call"),
        (
            ("__dictoffset__", T_PYSSIZET, "dict", READONLY), ("_function", T_OBJECT, "function", READONLY),
            ("_state", T_OBJECT, "state", READONLY), ("_access", T_LONGLONG, "access", READONLY),
            ("_rank", T_LONGLONG, "rank", READONLY), ("_op", T_LONGLONG, "op", READONLY),
        ),
        True,
    ),
)  # fmt: skip
