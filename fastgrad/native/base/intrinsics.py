"""What compiled code needs beyond Numba: records by handle, raw pointers, calls by address, stack frames.

Only the compiler imports this module; a warm start never does.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, register_model

from fastgrad.native.base.lowered import Memory
from fastgrad.native.base.pipeline import RuntimeCompiler
from fastgrad.native.contracts import python_types
from fastgrad.native.contracts.limits import FRAME_WORDS, WALK_STACK
from fastgrad.native.contracts.pass_plans import PASS_PLAN, PLAIN_EDGE
from fastgrad.native.contracts.record import Record
from fastgrad.native.contracts.records import RECORDS, RUNTIME

I64 = types.int64
WORDS = types.CPointer(types.int64)
_LL64 = ir.IntType(64)

NATIVE: dict[str, Any] = {
    "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
    "pipeline_class": RuntimeCompiler,
}  # fmt: skip


def native(function: Any) -> Any:
    """Compile `function` as part of the runtime: no exceptions, no bounds checks, no memory management."""
    # Said explicitly: otherwise what an inlined function calls, and all behind it, would be inlined as well.
    return _one_for_all_literals(njit(forceinline=False, **NATIVE)(function))


OUT_OF_LINE: set[str] = set()


def native_once(function: Any) -> Any:
    """Like `native`, never inlined: for what is long or rarely runs. Copies of it would only cost time to compile."""
    OUT_OF_LINE.add(f"{len(function.__name__)}{function.__name__}B")  # as it stands in the mangled name
    return native(function)


def native_inline(function: Any) -> Any:
    """Like `native`, always inlined by LLVM."""
    return _one_for_all_literals(njit(forceinline=True, **NATIVE)(function))


def _one_for_all_literals(dispatcher: Any) -> Any:
    """Numba would compile a function anew for each literal that it is called with; LLVM propagates those itself."""
    resolve = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: resolve(tuple(map(types.unliteral, args)), kws)
    dispatcher._cache = Memory(dispatcher)
    return dispatcher


# --- records ---------------------------------------------------------------------------------------------------


class RecordType(types.Type):
    """The Numba type of a record reached through its handle."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(name=f"fastgrad.{record.name}")


@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _LL64)


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, record: RecordType, attribute: str) -> Any:
        if attribute not in record.record.fields:
            return None
        if attribute in record.record.parts:
            return RecordType(record.record.parts[attribute])
        return I64 if record.record.fields[attribute][1] == 1 else WORDS


def _word_pointer(builder: Any, handle: Any, word: Any) -> Any:
    # From one pointer for the whole record, so that LLVM sees that its fields do not overlap.
    return builder.gep(builder.inttoptr(handle, _LL64.as_pointer()), [word])


def _field_pointer(builder: Any, record: Record, handle: Any, attribute: str) -> Any:
    return _word_pointer(builder, handle, ir.Constant(_LL64, record.fields[attribute][0]))


@lower_getattr_generic(RecordType)
def _get_field(context: Any, builder: Any, typ: Any, value: Any, attribute: str) -> Any:
    pointer = _field_pointer(builder, typ.record, value, attribute)
    if attribute in typ.record.parts:
        return builder.ptrtoint(pointer, _LL64)
    return builder.load(pointer) if typ.record.fields[attribute][1] == 1 else pointer


@lower_setattr_generic(RecordType)
def _set_field(context: Any, builder: Any, signature: Any, args: Any, attribute: str) -> None:
    target, value = args
    builder.store(value, _field_pointer(builder, signature.args[0].record, target, attribute))


CASTS: set[str] = set()
"""The records that what was compiled last casts to; whoever wants to know empties it before."""


def caster(record: Record) -> Any:
    """The function that compiled code casts the address of a record with."""
    record_type = RecordType(record)

    def cast(context: Any, handle: Any) -> Any:
        def codegen(_context: Any, _builder: Any, _signature: Any, args: Any) -> Any:
            CASTS.add(record.name)
            return args[0]

        return record_type(I64), codegen

    cast.__name__ = record.name
    return intrinsic(cast)


storage, tensor, node, task, slot, capture, opinfo, tape, _runtime = map(caster, RECORDS)
(
    tensor_object, node_object, handle_object, context_object, module_object, planned_object, native_hook_object,
) = map(caster, python_types.OBJECTS)  # fmt: skip
planned_call, plan_head, plan_step = map(
    caster, (python_types.PLANNED_CALL, python_types.PLAN_HEAD, python_types.PLAN_STEP)
)
module_call = caster(python_types.MODULE_CALL)
pass_plan, plain_edge = map(caster, (PASS_PLAN, PLAIN_EDGE))


@intrinsic
def nth(context: Any, record: Any, k: Any) -> Any:
    """The k-th of records of one kind that lie side by side, counted from `record`."""

    def codegen(_context: Any, builder: Any, signature: Any, args: Any) -> Any:
        length = ir.Constant(_LL64, signature.args[0].record.words)
        return builder.ptrtoint(_word_pointer(builder, args[0], builder.mul(args[1], length)), _LL64)

    return record(record, I64), codegen


@intrinsic
def words_of(context: Any, record: Any) -> Any:
    """How many words a record has."""

    def codegen(_context: Any, _builder: Any, signature: Any, _args: Any) -> Any:
        return ir.Constant(_LL64, signature.args[0].record.words)

    return I64(record), codegen


@intrinsic
def _runtime_address(context: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        module = builder.module
        name = "fastgrad_runtime"
        kind = ir.ArrayType(_LL64, RUNTIME.words)
        variable = module.globals.get(name)
        if variable is None:
            variable = ir.GlobalVariable(module, kind, name)
            variable.linkage = "linkonce_odr"
            variable.initializer = ir.Constant(kind, None)
            variable.align = 64
        return builder.ptrtoint(variable, _LL64)

    return I64(), codegen


@native_inline
def runtime() -> Any:
    """The record of the process's runtime."""
    return _runtime(_runtime_address())


@native_inline
def kernel_table() -> Any:
    """The addresses of kernels, by their cells."""
    return words(_runtime(_runtime_address()).kernels)


@native_inline
def runtime_address() -> int:
    """The address of that record."""
    return _runtime_address()


# --- pointers --------------------------------------------------------------------------------------------------


def pointer_to(element: types.Type) -> Any:
    """A function of compiled code that makes an address a pointer to such elements."""
    kind = types.CPointer(element)

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def codegen(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], inner.get_value_type(kind))

        return kind(I64), codegen

    return pointer


words = pointer_to(types.int64)
f64s = pointer_to(types.float64)
f32s = pointer_to(types.float32)
i32s = pointer_to(types.int32)
u8s = pointer_to(types.uint8)


@intrinsic
def address_of(context: Any, pointer: Any) -> Any:
    """The address that a pointer holds, or of a record."""

    def codegen(_context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0] if isinstance(signature.args[0], RecordType) else builder.ptrtoint(args[0], _LL64)

    return I64(pointer), codegen


def address_of_variable(name: str) -> Any:
    """The address of a variable by the name that the process knows it by."""

    @intrinsic
    def address(context: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            found = builder.module.globals.get(name)
            if found is None:
                found = ir.GlobalVariable(builder.module, _LL64, name)
            return builder.ptrtoint(found, _LL64)

        return I64(), codegen

    return address


@intrinsic
def advance(context: Any, pointer: Any, count: Any) -> Any:
    """The pointer `count` elements further on; unlike an index it never wraps around."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]], inbounds=True)

    return pointer(pointer, I64), codegen


def _on_stack(count: int, zeroed: bool) -> Any:
    @intrinsic
    def frame(context: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            kind = ir.ArrayType(_LL64, count)
            if zeroed:
                place = cgutils.alloca_once(builder, kind)
            else:
                with builder.goto_entry_block():
                    place = builder.alloca(kind)
            return builder.ptrtoint(place, _LL64)

        return I64(), codegen

    return frame


def stack_words(count: int) -> Any:
    """A function of compiled code that gives the address of so many words, zeros, on the stack of its caller."""
    return _on_stack(count, zeroed=True)


def stack_scratch(count: int) -> Any:
    """The same, but the words are not set: for what is large, and written before it is read."""
    return _on_stack(count, zeroed=False)


stack_frame = stack_words(FRAME_WORDS)
stack_small = stack_words(24)
stack_walk = stack_scratch(WALK_STACK)


def _checked(operation: str, text: str) -> Any:
    def checked(context: Any, a: Any, b: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            both = getattr(builder, operation)(*args)
            negative = builder.icmp_signed("<", builder.or_(*args), ir.Constant(_LL64, 0))
            wrong = builder.or_(builder.extract_value(both, 1), negative)
            return builder.select(wrong, ir.Constant(_LL64, -1), builder.extract_value(both, 0))

        return I64(I64, I64), codegen

    checked.__doc__ = (
        f"The {text} of two sizes; -1 if it does not fit into 63 bits, or if one of them is negative."
    )
    return intrinsic(checked)


product = _checked("smul_with_overflow", "product")
total = _checked("sadd_with_overflow", "sum")


@intrinsic
def float_of(context: Any, value: Any) -> Any:
    """The float64 whose bit pattern an int64 is."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(I64), codegen


@intrinsic
def leading_zeros(context: Any, value: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return I64(I64), codegen


# --- calls by address ------------------------------------------------------------------------------------------


@intrinsic
def call_kernel(context: Any, address: Any, frame: Any) -> Any:
    """Call ``void kernel(int64 frame)`` at `address`."""

    def codegen(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_LL64])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1]])
        return inner.get_dummy_value()

    return types.void(I64, I64), codegen


def extern(name: str, result: types.Type, *args: types.Type) -> Any:
    return types.ExternalFunction(name, result(*args))


malloc = extern("malloc", I64, I64)
c_free = extern("free", types.void, I64)
posix_memalign = extern("posix_memalign", types.int32, I64, I64, I64)
madvise = extern("madvise", types.int32, I64, I64, types.int32)
memset = extern("memset", I64, I64, types.int32, I64)
memcpy = extern("memcpy", I64, I64, I64, I64)
clock_gettime = extern("clock_gettime", types.int32, types.int32, I64)
