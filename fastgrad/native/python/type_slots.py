"""The functions that CPython calls as slots of the runtime's Python types, as LLVM IR: shims around compiled ones.

What the slots do stands in `objects`, that of the operators in `operator_slots`. `Tensor`, `Node` and `RemovableHandle`
derive from these types, and so does `Module`.
"""

from __future__ import annotations

from typing import NamedTuple

from fastgrad.native.contracts.ops import COMPARISONS, OPERATORS, UNARY_OPERATORS


class Shim(NamedTuple):
    """A function of CPython's types around a compiled one.

    Parameters
    ----------
    name : str
        Of its symbol behind ``fastgrad_``.
    export : str
        Of the compiled function.
    result : str
        ``p`` an object, ``i`` a word, ``v`` nothing, ``b`` an `int`.
    arguments : str
        These letters, and ``_`` for an argument that is not passed on.
    constant : int, optional
        What the compiled function gets besides, last.
    """

    name: str
    export: str
    result: str
    arguments: str
    constant: int | None = None


_SHIMS = (
    Shim("fail", "entry_refused", "p", "iipi"),
    Shim("refuse", "argument_refused", "p", "iipi"),
    Shim("object_handle", "object_handle", "i", "p"),
    Shim("optional_handle", "optional_handle", "i", "p"),
    Shim("operand_handle", "operand_handle", "i", "p"),
    Shim("node_handle", "node_handle", "i", "p"),
    Shim("function_handle", "function_handle", "i", "p"),
    Shim("pass_handle", "pass_handle", "i", "p"),
    Shim("context_of", "context_of", "i", "p"),
    Shim("hook_handle_of", "hook_handle_of", "i", "p"),
    Shim("tuple_of", "tuple_of", "i", "p"),
    Shim("dict_of", "dict_of", "i", "p"),
    Shim("node_class_of", "node_class_of", "i", "p"),
    Shim("context_class_of", "context_class_of", "i", "p"),
    Shim("chain_of", "chain_of", "i", "p"),
    Shim("sizes_of", "sizes_of", "i", "pp"),
    Shim("integers", "integers", "p", "pi"),
    Shim("wrap_optional", "wrap_optional", "p", "i"),
    Shim("slot_new", "no_new_tensor", "p", "___"),
    Shim("slot_dealloc", "dealloc_tensor", "v", "p"),
    Shim("slot_traverse", "traverse_tensor", "b", "ppp"),
    Shim("slot_clear", "clear_tensor", "b", "p"),
    Shim("slot_hash", "hash_of", "i", "p"),
    Shim("slot_richcompare", "comparison", "p", "ppb"),
    Shim("node_slot_new", "no_new_node", "p", "___"),
    Shim("node_slot_dealloc", "dealloc_node", "v", "p"),
    Shim("node_slot_traverse", "traverse_node", "b", "ppp"),
    Shim("node_slot_clear", "clear_node", "b", "p"),
    Shim("node_slot_get_held", "get_held", "p", "pi"),
    Shim("node_slot_set_held", "set_held", "b", "ppi"),
    Shim("handle_slot_dealloc", "dealloc_handle", "v", "p"),
    Shim("context_slot_dealloc", "dealloc_context", "v", "p"),
    Shim("context_slot_traverse", "traverse_context", "b", "ppp"),
    Shim("context_slot_clear", "clear_context", "b", "p"),
    Shim("context_slot_call", "context_call", "p", "ppp"),
    Shim("planned_call", "call_planned", "p", "ppip"),
    Shim("planned_slot_descr_get", "planned_method", "p", "pp_"),
    Shim("planned_slot_repr", "planned_text", "p", "p"),
    Shim("planned_slot_dealloc", "dealloc_planned", "v", "p"),
    Shim("planned_slot_traverse", "traverse_planned", "b", "ppp"),
    Shim("planned_slot_clear", "clear_planned", "b", "p"),
    Shim("native_hook_slot_call", "call_native_hook", "p", "ppp"),
    Shim("native_hook_slot_dealloc", "dealloc_native_hook", "v", "p"),
    Shim("native_hook_slot_traverse", "traverse_native_hook", "b", "ppp"),
    Shim("native_hook_slot_clear", "clear_native_hook", "b", "p"),
    Shim("module_slot_call", "module_call", "p", "ppp"),
    Shim("module_getattro", "module_attribute", "p", "pp"),
    Shim("module_class_of", "module_class_of", "i", "p"),
    Shim("context_slot_enter", "context_enter", "p", "p"),
    Shim("context_slot_exit", "context_exit", "p", "p"),
)


def _operator(number: int, name: str) -> Shim:
    """The slot of an operator; those in place have no compiled form."""
    if name in UNARY_OPERATORS:
        return Shim(f"slot_{name}", "operator_of_one", "p", "p", number)
    export = "operator_in_python" if name.startswith("inplace_") else "operator"
    return Shim(f"slot_{name}", export, "p", "pp", number)


SHIMS = (*_SHIMS, *(_operator(k, name) for k, name in enumerate(OPERATORS) if name not in COMPARISONS))

_TYPES = {"_": "ptr", "p": "ptr", "i": "i64", "v": "void", "b": "i32"}
_TO_WORD = {"p": "  %w{k} = ptrtoint ptr %a{k} to i64", "b": "  %w{k} = sext i32 %a{k} to i64"}
_FROM_WORD = {
    "p": "  %out = inttoptr i64 %value to ptr\n  ret ptr %out", "i": "  ret i64 %value", "v": "  ret void",
    "b": "  %out = trunc i64 %value to i32\n  ret i32 %out",
}  # fmt: skip


def shims(symbols: dict[str, str]) -> str:
    """The functions as text; `symbols` maps exports of the runtime to their compiled names."""
    return "\n".join(_text(shim, symbols[shim.export]) for shim in SHIMS)


def _text(shim: Shim, symbol: str) -> str:
    parameters = ", ".join(f"{_TYPES[letter]} %a{k}" for k, letter in enumerate(shim.arguments))
    lines = [
        f"define {_TYPES[shim.result]} @fastgrad_{shim.name}({parameters}) {{",
        "  %result = alloca i64",
        "  %info = alloca ptr",
    ]
    passed = ["ptr %result", "ptr %info"]
    for k, letter in enumerate(shim.arguments):
        if letter in _TO_WORD:
            lines.append(_TO_WORD[letter].format(k=k))
        if letter != "_":
            passed.append(f"i64 %{'w' if letter in _TO_WORD else 'a'}{k}")
    if shim.constant is not None:
        passed.append(f"i64 {shim.constant}")
    lines.append(f"  %code = call i32 @{symbol}({', '.join(passed)})")
    if shim.result != "v":
        lines.append("  %value = load i64, ptr %result")
    return "\n".join([*lines, _FROM_WORD[shim.result], "}"])
