"""The functions that CPython calls, around compiled ones, as LLVM IR: see Note [Entries] in `contracts.entries`."""

from __future__ import annotations

from fastgrad.native.contracts.entries import BOUNDS, MOST_SIZES, Argument, Entry
from fastgrad.native.contracts.entry_table import ENTRIES
from fastgrad.native.contracts.records import NODE, RUNTIME
from fastgrad.native.python.type_slots import shims

# What turns an object into what the compiled function gets, and what that answers for anything of another kind.
CONVERSIONS = {
    "tensor": ("object_handle", 0), "tensor?": ("optional_handle", -1), "node": ("node_handle", 0),
    "elements": ("operand_handle", 0),
    "function": ("function_handle", 0), "pass": ("pass_handle", 0), "context": ("context_of", 0),
    "handle": ("hook_handle_of", 0), "tuple": ("tuple_of", 0), "dict": ("dict_of", 0),
    "node class": ("node_class_of", 0),
    "context class": ("context_class_of", 0), "module class": ("module_class_of", 0), "chain": ("chain_of", 0),
}  # fmt: skip
NUMBERS = ("int", "float", "index", "sizes")  # what Python may have a say in
LIST_WORDS = 24  # the longest tuple of integers that an entry returns


def wrappers(symbols: list[str]) -> str:
    """The text of the runtime's entries and of the slots of its types; `symbols` are the compiled functions."""
    lines = [
        _PRELUDE,
        f"@fastgrad_runtime = linkonce_odr global [{RUNTIME.words} x i64] zeroinitializer, align 64",
    ]
    for number, (entry, symbol) in enumerate(zip(ENTRIES, symbols, strict=True)):
        parameters = ["ptr", "ptr", *("double" if letter == "d" else "i64" for letter in entry.letters)]
        lines.append(f"declare i32 @{symbol}({', '.join(parameters)})")
        if entry.result == "vector":
            lines.append(_VECTOR.format(name=entry.name, symbol=symbol))
        elif entry.result == "thread":
            lines.append(_THREAD.format(name=entry.name, symbol=symbol))
        elif entry.is_public:
            lines.append(_entry(number, entry, symbol))
    lines.append(shims({e.name: s for e, s in zip(ENTRIES, symbols, strict=True)}))
    return "\n".join(lines)


_PRELUDE = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
@_Py_NoneStruct = external global i8
"""

_VECTOR = """
define ptr @fastgrad_{name}(ptr %self, ptr %args, i64 %n) {{
  %result = alloca i64
  %info = alloca ptr
  %vector = ptrtoint ptr %args to i64
  %code = call i32 @{symbol}(ptr %result, ptr %info, i64 %vector, i64 %n)
  %value = load i64, ptr %result
  %object = inttoptr i64 %value to ptr
  ret ptr %object
}}"""


_THREAD = """
define i64 @fastgrad_{name}(i64 %argument) {{
  %result = alloca i64
  %info = alloca ptr
  %code = call i32 @{symbol}(ptr %result, ptr %info, i64 %argument)
  ret i64 0
}}"""


class _Steps:
    """The conversions and checks of an entry's arguments: blocks, each of which goes on to the next or to `refuse`.

    Numbers come first: `__index__` is Python and may change a tensor, and with it its handle.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.lines: list[str] = []
        self.count = 0
        self.refusals = [
            "[ -1, %0 ]"
        ]  # which argument is wrong, by the block that found it; -1 for their number
        order = sorted(range(len(entry.arguments)), key=lambda k: entry.arguments[k].kind not in NUMBERS)
        for k in order:
            self._convert(k, entry.arguments[k])
        for k, argument in enumerate(entry.arguments):
            if argument.kind == "index":
                self._compare(k, argument.bound)

    def values(self) -> list[str]:
        """What the compiled function gets."""
        found = []
        for k, argument in enumerate(self.entry.arguments):
            found.append(f"{'double' if argument.kind == 'float' else 'i64'} %v{k}")
            if argument.kind == "sizes":
                found.append(f"i64 %w{k}")
        return found

    def _step(self, k: int, lines: list[str], refused: str) -> None:
        """A block; `refused` is the condition that argument `k` is wrong."""
        at = self.count
        self.lines += [f"b{at}:", *lines, f"  %t{at} = {refused}"]
        self.lines.append(f"  br i1 %t{at}, label %refuse, label %b{at + 1}")
        self.refusals.append(f"[ {k}, %b{at} ]")
        self.count += 1

    def _convert(self, k: int, argument: Argument) -> None:
        load = [f"  %p{k} = getelementptr ptr, ptr %args, i64 {k}", f"  %o{k} = load ptr, ptr %p{k}"]
        if argument.kind == "object":
            self.lines += [f"b{self.count}:", *load, f"  %v{k} = ptrtoint ptr %o{k} to i64"]
            self.lines.append(f"  br label %b{self.count + 1}")
            self.count += 1
        elif argument.kind == "sizes":
            load.append(f"  %w{k} = ptrtoint ptr %s{k} to i64")
            load.append(f"  %v{k} = call i64 @fastgrad_sizes_of(ptr %o{k}, ptr %s{k})")
            self._step(k, load, f"icmp slt i64 %v{k}, 0")
        elif argument.kind in CONVERSIONS:
            convert, bad = CONVERSIONS[argument.kind]
            load.append(f"  %v{k} = call i64 @fastgrad_{convert}(ptr %o{k})")
            self._step(k, load, f"icmp eq i64 %v{k}, {bad}")
        elif argument.kind == "index":
            load.append(f"  %v{k} = call i64 @PyLong_AsLongLong(ptr %o{k})")
            self._step(k, load, f"icmp slt i64 %v{k}, 0")
        else:
            self._number(k, load, argument.kind)

    def _number(self, k: int, load: list[str], kind: str) -> None:
        """An int or a float: -1 where there is an exception, or the number."""
        call, minus = {
            "int": ("i64 @PyLong_AsLongLong", f"icmp eq i64 %v{k}, -1"),
            "float": ("double @PyFloat_AsDouble", f"fcmp oeq double %v{k}, -1.0"),
        }[kind]
        self.lines += [
            f"b{self.count}:", *load, f"  %v{k} = call {call}(ptr %o{k})", f"  %m{k} = {minus}",
            f"  br i1 %m{k}, label %b{self.count + 1}, label %b{self.count + 2}",
        ]  # fmt: skip
        self.count += 1
        self._step(k, [f"  %x{k} = call ptr @PyErr_Occurred()"], f"icmp ne ptr %x{k}, null")

    def _compare(self, k: int, bound: str) -> None:
        """An index with a number, or with a field of the node before it."""
        if bound in BOUNDS:
            self._step(k, [], f"icmp sge i64 %v{k}, {BOUNDS[bound]}")
            return
        node = max(j for j in range(k) if self.entry.arguments[j].kind in ("node", "function"))
        lines = [
            f"  %r{k} = inttoptr i64 %v{node} to ptr",
            f"  %f{k} = getelementptr i64, ptr %r{k}, i64 {NODE.fields[bound][0]}",
            f"  %l{k} = load i64, ptr %f{k}",
        ]
        self._step(k, lines, f"icmp sge i64 %v{k}, %l{k}")


def _entry(number: int, entry: Entry, symbol: str) -> str:
    """The METH_FASTCALL wrapper of one entry."""
    steps = _Steps(entry)
    arrays = [k for k, argument in enumerate(entry.arguments) if argument.kind == "sizes"]
    values = [*steps.values(), *(["i64 %where"] if entry.result == "integers" else [])]
    return "\n".join([
        f"define ptr @fastgrad_{entry.name}(ptr %self, ptr %args, i64 %n) {{",
        "  %result = alloca i64",
        "  %info = alloca ptr",
        f"  %list = alloca [{LIST_WORDS} x i64]",
        *(f"  %s{k} = alloca [{MOST_SIZES} x i64]" for k in arrays),
        f"  %ok = icmp eq i64 %n, {len(entry.arguments)}",
        "  br i1 %ok, label %b0, label %refuse",
        *steps.lines,
        f"b{steps.count}:",
        "  %where = ptrtoint ptr %list to i64",
        f"  %code = call i32 @{symbol}({', '.join(['ptr %result', 'ptr %info', *values])})",
        _RESULTS[entry.result].replace("FAILED", _FAILED.format(number=number)),
        "refuse:",
        f"  %wrong = phi i64 {', '.join(steps.refusals)}",
        f"  %refused = call ptr @fastgrad_refuse(i64 {number}, i64 %wrong, ptr %args, i64 %n)",
        "  ret ptr %refused",
        "}",
    ])  # fmt: skip


_FAILED = """  %bad = icmp slt i64 %value, 0
  br i1 %bad, label %failed, label %good
failed:
  %raise = call ptr @fastgrad_fail(i64 {number}, i64 %value, ptr %args, i64 %n)
  ret ptr %raise
good:"""
_RESULTS = {
    "none": "  call void @Py_IncRef(ptr @_Py_NoneStruct)\n  ret ptr @_Py_NoneStruct",
    "int": "  %value = load i64, ptr %result\n  %boxed = call ptr @PyLong_FromLongLong(i64 %value)\n  ret ptr %boxed",
    "count": "  %value = load i64, ptr %result\nFAILED\n"
    "  %boxed = call ptr @PyLong_FromLongLong(i64 %value)\n  ret ptr %boxed",
    "tensor": "  %value = load i64, ptr %result\nFAILED\n"
    "  %object = call ptr @fastgrad_wrap_optional(i64 %value)\n  ret ptr %object",
    "object": "  %value = load i64, ptr %result\nFAILED\n  %object = inttoptr i64 %value to ptr\n  ret ptr %object",
    "integers": "  %value = load i64, ptr %result\nFAILED\n"
    "  %tuple = call ptr @fastgrad_integers(ptr %list, i64 %value)\n  ret ptr %tuple",
}
