"""The functions of CPython's API that compiled code calls; an object is its address, 0 a NULL.

Names are those of the API. Whether a reference is new or borrowed is as CPython documents it; the one function that is
not documented looks an attribute up, and says nothing where there is none.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fastgrad.native.base.intrinsics import (
    I64,
    address_of_variable,
    extern,
    native_inline,
    native_once,
    runtime,
    words,
)

INT = types.int32

py_incref = extern("Py_IncRef", types.void, I64)
py_decref = extern("Py_DecRef", types.void, I64)
py_alloc = extern("PyType_GenericAlloc", I64, I64, I64)
py_is_subtype = extern("PyType_IsSubtype", INT, I64, I64)
py_get_slot = extern("PyType_GetSlot", I64, I64, INT)
py_collector_off = extern("PyGC_Disable", INT)
py_collector_on = extern("PyGC_Enable", INT)
py_untrack = extern("PyObject_GC_UnTrack", types.void, I64)
py_clear_weakrefs = extern("PyObject_ClearWeakRefs", types.void, I64)
py_weakref = extern("PyWeakref_NewRef", I64, I64, I64)
py_integer = extern("PyLong_FromLongLong", I64, I64)
py_unsigned = extern("PyLong_FromUnsignedLongLong", I64, I64)
py_integer_value = extern("PyLong_AsLongLong", I64, I64)
py_float = extern("PyFloat_FromDouble", I64, types.float64)
py_complex = extern("PyComplex_FromDoubles", I64, types.float64, types.float64)
py_bool = extern("PyBool_FromLong", I64, I64)
py_float_value = extern("PyFloat_AsDouble", types.float64, I64)
py_vectorcall = extern("PyObject_Vectorcall", I64, I64, I64, I64, I64)
py_set_item = extern("PyObject_SetItem", INT, I64, I64, I64)
py_del_item = extern("PyObject_DelItem", INT, I64, I64)
py_dict_size = extern("PyDict_Size", I64, I64)
py_dict_get = extern("PyDict_GetItem", I64, I64, I64)
py_dict_get_text = extern("PyDict_GetItemString", I64, I64, I64)
py_compare_text = extern("PyUnicode_CompareWithASCIIString", INT, I64, I64)
py_dict_contains = extern("PyDict_Contains", INT, I64, I64)
py_dict_delete = extern("PyDict_DelItem", INT, I64, I64)
py_dict_copy = extern("PyDict_Copy", I64, I64)
py_dict_update = extern("PyDict_Update", INT, I64, I64)
py_dict_next = extern("PyDict_Next", INT, I64, I64, I64, I64)
py_keys = extern("PyMapping_Keys", I64, I64)
py_values = extern("PyMapping_Values", I64, I64)
py_list_new = extern("PyList_New", I64, I64)
py_list_append = extern("PyList_Append", INT, I64, I64)
py_list_size = extern("PyList_Size", I64, I64)
py_list_item = extern("PyList_GetItem", I64, I64, I64)
py_list_set = extern("PyList_SetItem", INT, I64, I64, I64)
py_generic_attribute = extern("_PyObject_GenericGetAttrWithDict", I64, I64, I64, I64, INT)
py_size = extern("PyObject_Size", I64, I64)
py_generic_dict = extern("PyObject_GenericGetDict", I64, I64, I64)
py_dict_new = extern("PyDict_New", I64)
py_dict_set = extern("PyDict_SetItem", INT, I64, I64, I64)
py_get_buffer = extern("PyObject_GetBuffer", INT, I64, I64, INT)
py_release_buffer = extern("PyBuffer_Release", types.void, I64)
py_tuple_size = extern("PyTuple_Size", I64, I64)
py_get_attribute = extern("PyObject_GetAttr", I64, I64, I64)
py_call_tuple = extern("PyObject_Call", I64, I64, I64, I64)
py_tuple_new = extern("PyTuple_New", I64, I64)
py_tuple_set = extern("PyTuple_SetItem", INT, I64, I64, I64)
py_tuple_item = extern("PyTuple_GetItem", I64, I64, I64)
py_bytearray_size = extern("PyByteArray_Size", I64, I64)
py_bytearray_text = extern("PyByteArray_AsString", I64, I64)
py_tuple_slice = extern("PyTuple_GetSlice", I64, I64, I64, I64)
py_bytes_new = extern("PyBytes_FromStringAndSize", I64, I64, I64)
py_bytes_text = extern("PyBytes_AsString", I64, I64)
py_repr = extern("PyObject_Repr", I64, I64)
py_method = extern("PyMethod_New", I64, I64, I64)
py_thread_state = extern("PyThreadState_Get", I64)
py_thread_id = extern("PyThreadState_GetID", I64, I64)
py_thread_ident = extern("PyThread_get_thread_ident", I64)
py_interpreter = extern("PyInterpreterState_Get", I64)
py_thread_head = extern("PyInterpreterState_ThreadHead", I64, I64)
py_thread_next = extern("PyThreadState_Next", I64, I64)
py_frame = extern("PyEval_GetFrame", I64)
py_save_thread = extern("PyEval_SaveThread", I64)
py_restore_thread = extern("PyEval_RestoreThread", types.void, I64)
py_function_code = extern("PyFunction_GetCode", I64, I64)
py_method_function = extern("PyMethod_Function", I64, I64)
py_frame_back = extern("PyFrame_GetBack", I64, I64)
py_frame_code = extern("PyFrame_GetCode", I64, I64)
py_frame_line = extern("PyFrame_GetLineNumber", INT, I64)
py_err_occurred = extern("PyErr_Occurred", I64)
py_err_clear = extern("PyErr_Clear", types.void)
py_err_set_none = extern("PyErr_SetNone", types.void, I64)
py_err_set_text = extern("PyErr_SetString", types.void, I64, I64)
py_err_no_memory = extern("PyErr_NoMemory", I64)
py_err_fetch = extern("PyErr_Fetch", types.void, I64, I64, I64)
py_err_normalize = extern("PyErr_NormalizeException", types.void, I64, I64, I64)
py_set_traceback = extern("PyException_SetTraceback", INT, I64, I64)
py_err_restore = extern("PyErr_Restore", types.void, I64, I64, I64)

TP_FREE, TP_GETATTRO = 74, 58  # numbers of slots in the stable ABI


# Objects of CPython's that are variables. Exceptions are variables that point at objects; in a process with Numba their
# names mean the objects themselves, so the runtime is told the classes that it raises.
none = address_of_variable("_Py_NoneStruct")
not_implemented = address_of_variable("_Py_NotImplementedStruct")
ellipsis = address_of_variable("_Py_EllipsisObject")
list_type = address_of_variable("PyList_Type")
int_type = address_of_variable("PyLong_Type")
bool_type = address_of_variable("PyBool_Type")
float_type = address_of_variable("PyFloat_Type")
type_type = address_of_variable("PyType_Type")
text_type = address_of_variable("PyUnicode_Type")
tuple_type = address_of_variable("PyTuple_Type")
function_type = address_of_variable("PyFunction_Type")
method_type = address_of_variable("PyMethod_Type")
slice_type = address_of_variable("PySlice_Type")
dict_type = address_of_variable("PyDict_Type")
bytes_type = address_of_variable("PyBytes_Type")
bytearray_type = address_of_variable("PyByteArray_Type")


@native_inline
def type_error() -> int:
    """The class TypeError, borrowed."""
    return runtime().type_error


@native_inline
def runtime_error() -> int:
    """The class RuntimeError, borrowed."""
    return runtime().runtime_error


@native_inline
def system_error() -> int:
    """The class SystemError, borrowed."""
    return runtime().system_error


def text(value: str) -> Any:
    """The address of a constant text."""
    data = bytearray(value.encode() + b"\0")

    @intrinsic
    def address(context: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            kind = ir.ArrayType(ir.IntType(8), len(data))
            return builder.ptrtoint(
                cgutils.global_constant(builder, "text", ir.Constant(kind, data)), ir.IntType(64)
            )

        return I64(), codegen

    return address


def raises(kind: Any, message: str) -> Any:
    """A function that sets an exception, unless one is set, and returns zero."""
    message_text = text(message)

    @native_once
    def set_exception():  # type: ignore[no-untyped-def]
        """Zero, and an exception is set."""
        if py_err_occurred() == 0:
            py_err_set_text(kind(), message_text())
        return 0

    return set_exception


@native_inline
def is_going(o):
    """Whether an object is being destroyed: nobody holds it any more, and nobody is to get hold of it again."""
    return words(o)[0] & 0xFFFFFFFF == 0


@intrinsic
def call_visit(context: Any, visit: Any, item: Any, argument: Any) -> Any:
    """Call a ``visitproc``; returns its answer."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.IntType(32), [word, word])
        answer = builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return builder.sext(answer, word)

    return I64(I64, I64, I64), codegen


@intrinsic
def call_free(context: Any, function: Any, item: Any) -> Any:
    """Call a ``freefunc``."""

    def codegen(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return inner.get_dummy_value()

    return types.void(I64, I64), codegen
