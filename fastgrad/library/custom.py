"""`custom_op`: users' ops that are functions of Python, with PyTorch's interface.

An op is called with what its schema says, and nothing else. Where a derivative may be asked for, the call is one of a
custom function (`autograd.Function`), so that hooks, passes, recordings of `fastgrad.compile` and debug modes know it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import is_grad_enabled, no_grad
from fastgrad.autograd.mutation import increment_version
from fastgrad.library.names import qualified
from fastgrad.library.schemas import Schema, inferred, parsed
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.records import TENSOR
from fastgrad.ops import namespaces

_STORAGE = TENSOR.fields["storage"][0]
DEVICE_TYPES = ("cpu", "cuda")


class CustomOpDef:
    """A user's op; `custom_op` makes one, and calling it runs the implementation for the device of its tensors.

    Parameters
    ----------
    schema : Schema
        With the op's qualified name.
    function : callable, optional
        What `register_kernel` falls back to where a kernel is switched off.
    opaque : bool
        Whether what the implementation calls is hidden from autograd, as for `custom_op`; otherwise, as for
        `Library.impl`, it is differentiated through unless `register_autograd` was called.
    """

    def __init__(
        self, schema: Schema, function: Callable[..., Any] | None = None, opaque: bool = True
    ) -> None:
        if not isinstance(schema, Schema):
            raise TypeError(
                "a CustomOpDef is made by fastgrad.library.custom_op(name, function, mutates_args=...)"
            )
        self._schema = schema
        self._qualname = schema.name
        self._namespace, self._name = schema.name.split("::")
        self._init_fn = function
        self._opaque = opaque
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        self._disabled: set[str | None] = set()
        self._fake: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._autocast: dict[str, Any] = {}
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._function = _function_of(self)
        # A recording calls such an op again; one that gives numbers or changes memory it has to look into.
        self._replayed = not schema.is_mutable and all(kind.startswith("Tensor") for kind in schema.returns)
        if function is not None:
            functools.update_wrapper(self, function, updated=())

    @property
    def default(self) -> CustomOpDef:
        """The only overload: the op itself."""
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __copy__(self) -> CustomOpDef:
        return self

    def __deepcopy__(self, _: Any) -> CustomOpDef:
        return self

    def __reduce__(self) -> Any:
        return _by_name, (self._qualname,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the op.

        Raises
        ------
        RuntimeError
            For arguments that do not fit the schema, and for results that do not, or share memory with arguments.
        NotImplementedError
            If there is no implementation for the device.
        """
        values = self._schema.bind(args, kwargs)
        flat, spec = _flattened(values)
        recorded = is_grad_enabled() and any(isinstance(v, TensorBase) and v.requires_grad for v in flat)
        if not self._opaque and self._backward is None:
            return self._run(values)
        if recorded or (self._replayed and rt.capturing()):
            call = _Call(spec)
            made = self._function.apply(*flat, call)
            return call.rebuilt(made)
        with no_grad():
            return self._run(values)

    def _run(self, values: list[Any]) -> Any:
        """Run the implementation on the value of each argument; look at what it returns."""
        kernel = self._kernel(values)
        schema = self._schema
        args = [v for a, v in zip(schema.arguments, values, strict=True) if not a.kwarg_only]
        kwargs = {a.name: v for a, v in zip(schema.arguments, values, strict=True) if a.kwarg_only}
        before = {id(t): (t, rt.version(t)) for t in self._mutated(values)}
        result = kernel(*args, **kwargs)
        schema.check_result(result)
        if self._opaque:
            self._check_memory(values, result, kernel)
        for tensor, version in before.values():
            if rt.version(tensor) == version:
                increment_version(tensor)
        return result

    def _mutated(self, values: list[Any]) -> Iterator[Any]:
        for argument, value in zip(self._schema.arguments, values, strict=True):
            if argument.mutated:
                yield from (v for v in leaves(value) if isinstance(v, TensorBase))

    def _kernel(self, values: list[Any]) -> Callable[..., Any]:
        """The implementation for the device of the tensors; of a device argument where there are none."""
        kinds = {v.device.type for value in values for v in leaves(value) if isinstance(v, TensorBase)}
        if not kinds:
            kinds = {
                v.type
                for a, v in zip(self._schema.arguments, values, strict=True)
                if a.base == "Device" and v is not None
            }
        kind = "cuda" if "cuda" in kinds else "cpu"
        for key in (kind, None):
            if key in self._disabled and self._init_fn is not None:
                return self._init_fn
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(
            f"Could not run '{self._qualname}' with arguments from the '{kind.upper()}' backend: it has "
            "implementations for "
            f"{', '.join(str(k or 'every device') for k in self._kernels) or 'no device'}; add one by "
            f"register_kernel('{kind}')"
        )

    def _check_memory(self, values: list[Any], result: Any, kernel: Callable[..., Any]) -> None:
        """Raise where a result shares memory with an argument or another result: histories could not tell."""
        seen = {rt.field(v, _STORAGE) for value in values for v in leaves(value) if isinstance(v, TensorBase)}
        for tensor in leaves(result):
            if not isinstance(tensor, TensorBase):
                continue
            storage = rt.field(tensor, _STORAGE)
            if storage in seen:
                raise RuntimeError(
                    f"{self._name} (with implementation in {inspect.getmodule(kernel)}): The output of this custom "
                    "operator "
                    "(1) must not also be an input to this custom operator and (2) may not alias any inputs to "
                    "this custom "
                    "operator or other returns. The most common way to trigger this error is if we have y = "
                    "custom_op(x) "
                    "and y and x are the same Tensor. Please instead return a clone of the offending output tensor(s) "
                    "(e.g. return x.clone()) or refactor the custom operator to not return y."
                )
            seen.add(storage)

    # --- what is registered ------------------------------------------------------------------------------------

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Register an implementation for devices; without `fn` the result is a decorator.

        Parameters
        ----------
        device_types : {"cpu", "cuda"}, sequence of them, or None
            None for every device that has none of its own.
        fn : callable, optional

        Raises
        ------
        RuntimeError
            For another kind of device.
        TypeError
            If `fn` cannot be called.
        """
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        _need_callable("register_kernel", "fn", fn)
        kinds = (
            [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
        )
        for kind in kinds:
            if kind is not None and kind not in DEVICE_TYPES:
                raise RuntimeError(
                    f"Expected one of {', '.join(DEVICE_TYPES)} device type at start of device string: {kind}"
                )
        self._kernels |= dict.fromkeys(kinds, fn)
        return fn

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register a function that makes results of the right sizes and dtypes without computing; `opcheck` "
        "compares.
        """
        self._fake = _need_callable("register_fake", "fn", fn)
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register a derivative.

        Parameters
        ----------
        backward : callable
            ``backward(ctx, *grads)``: the gradient for each positional argument, in the structure of the arguments,
            None for those that have none.
        setup_context : callable, optional
            ``setup_context(ctx, inputs, output)``, with ``keyword_only_inputs`` before the output if the op has any:
            it saves what `backward` reads, by ``ctx.save_for_backward`` and attributes.

        Raises
        ------
        RuntimeError
            If the op changes its arguments.
        TypeError
            For what cannot be called.
        """
        if self._schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema {self._schema}. "
                "Please "
                "create a functional operator and register an autograd formula for that."
            )
        self._backward = _need_callable("register_autograd", "backward", backward)
        if setup_context is not None:
            _need_callable("register_autograd", "setup_context", setup_context)
        self._setup_context = setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register a rule for `vmap`, ``func(info, in_dims, *args)``, which is kept; also as a decorator."""
        if func is None:
            return self.register_vmap
        self._vmap = _need_callable("register_vmap", "func", func)
        return func

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Refuse: convert operands in the implementation."""
        raise NotImplementedError(
            "register_autocast(): ops of users do not take part in autocast; convert the operands of "
            f"{self._qualname} in "
            "a function around it"
        )

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        """Refuse: there is no ``__torch_dispatch__``."""
        raise NotImplementedError("register_torch_dispatch(): there is no __torch_dispatch__ in fastgrad")

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """A block in which the implementation for a kind of device is on, or off for the op's own function."""
        before = set(self._disabled)
        if device_type not in self._kernels:
            word = "enable" if enabled else "disable"
            warnings.warn(
                f"Attempted to {word} kernel for {device_type} but no kernel was registered for this device type.",
                stacklevel=3,
            )
        if enabled:
            self._disabled.discard(device_type)
        else:
            self._disabled.add(device_type)
        try:
            yield
        finally:
            self._disabled = before


def _need_callable(caller: str, argument: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(
            f"{caller}(): {argument} is required to be a callable but found type {type(value).__name__}"
        )
    return value


def _by_name(qualname: str) -> Any:
    """The op that a pickle names."""
    found = namespaces.find(qualname)
    if found is None:
        raise AttributeError(
            f"no op {qualname!r} is defined; import the module that defines it before unpickling"
        )
    return found


# --- the custom function of an op ----------------------------------------------------------------------------------


def leaves(value: Any) -> Iterator[Any]:
    """What lists and tuples hold, and what else there is."""
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from leaves(v)
    else:
        yield value


def _flattened(values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Values with the elements of lists among them; of each the length, -1 for what is no list."""
    flat: list[Any] = []
    spec = []
    for value in values:
        is_list = isinstance(value, list)
        spec.append(len(value) if is_list else -1)
        flat.extend(value if is_list else (value,))
    return flat, tuple(spec)


def _nested(flat: Sequence[Any], spec: Sequence[int]) -> list[Any]:
    """The reverse of `_flattened`."""
    made: list[Any] = []
    at = 0
    for n in spec:
        made.append(flat[at] if n < 0 else list(flat[at : at + n]))
        at += abs(n) if n else 0
    return made


class _Call:
    """The structure of a call's arguments and results: custom functions know tensors alone."""

    def __init__(self, spec: tuple[int, ...]) -> None:
        self.spec = spec
        self.returned: tuple[int, ...] | None = None
        self.is_tuple = False

    def take(self, result: Any) -> Any:
        """What a custom function is to return for a result of the op."""
        self.is_tuple = isinstance(result, tuple)
        flat, self.returned = _flattened(result if self.is_tuple else (result,))
        return tuple(flat)

    def rebuilt(self, flat: Any) -> Any:
        """The result of the op from what the custom function returned."""
        made = _nested(flat, self.returned or ())
        return tuple(made) if self.is_tuple else made[0]


def _function_of(op: CustomOpDef) -> type[Function]:
    """The custom function that calls an op."""

    def forward(ctx: Any, *args: Any) -> Any:
        call = args[-1]
        values = _nested(args[:-1], call.spec)
        result = op._run(values)
        ctx._call = call
        if op._setup_context is not None:
            about = op._schema.arguments
            inputs = tuple(v for a, v in zip(about, values, strict=True) if not a.kwarg_only)
            named = {a.name: v for a, v in zip(about, values, strict=True) if a.kwarg_only}
            more = {"keyword_only_inputs": named} if named else {}
            op._setup_context(ctx=ctx, inputs=inputs, **more, output=result)
        return call.take(result)

    def backward(ctx: Any, *grads: Any) -> Any:
        if op._backward is None:
            raise RuntimeError(
                f"Trying to backward through {op._namespace}.{op._name}.default but no autograd formula was "
                "registered. "
                "Please use register_autograd to add one."
            )
        call, needs = ctx._call, ctx.needs_input_grad
        positional = [k for k, a in enumerate(op._schema.arguments) if not a.kwarg_only]
        ctx.needs_input_grad = tuple(_nested(needs[:-1], call.spec)[k] for k in positional)
        try:
            result = op._backward(ctx, *_nested(grads, call.returned))
        finally:
            ctx.needs_input_grad = needs
        return _gradients(op, call, result)

    name = f"GeneratedBackwardFor_{op._namespace}_{op._name}_default"
    return type(name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def _gradients(op: CustomOpDef, call: _Call, result: Any) -> tuple[Any, ...]:
    """What a backward function returned, one value for each argument of the custom function."""
    given = list(result) if isinstance(result, tuple) else [result]
    spec = [n for n, a in zip(call.spec, op._schema.arguments, strict=True) if not a.kwarg_only]
    if len(given) < len(spec) or any(g is not None for g in given[len(spec) :]):
        raise RuntimeError(
            f"backward of {op._qualname}: expected {len(spec)} gradients, one for each positional argument (None "
            "for those "
            f"without one), but got {len(given)}"
        )
    flat: list[Any] = []
    for n, gradient in zip(spec, given, strict=False):
        if n < 0:
            flat.append(gradient)
        elif gradient is None:
            flat += [None] * n
        elif isinstance(gradient, (list, tuple)) and len(gradient) == n:
            flat += gradient
        else:
            raise RuntimeError(
                f"backward of {op._qualname}: Expected the return from backward to be of the same structure as the "
                "inputs: "
                f"a list of {n} gradients for an argument that is a list"
            )
    more = sum(abs(n) if n else 0 for n in call.spec) + 1 - len(flat)
    return (*flat, *([None] * more))


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Sequence[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an op of a function that autograd does not look into.

    Parameters
    ----------
    name : str
        ``"namespace::name"``; it is found as ``fastgrad.ops.namespace.name`` as well, and a second op of a name takes
        the place of the first.
    fn : callable, optional
        Its implementation, with annotations (see `infer_schema`). Results share memory neither with arguments nor with
        each other. Without it the result is a decorator.
    mutates_args : sequence of str, or "unknown"
        The arguments that it changes in place.
    device_types : {"cpu", "cuda"}, or sequence of them, optional
        The devices that it is for: all by default.
    schema : str, optional
        In place of the annotations: ``"(Tensor x, float factor=2.0) -> Tensor"``.
    tags : optional
        PyTorch's, which say nothing here.

    Returns
    -------
    CustomOpDef

    Raises
    ------
    ValueError
        For another name, or annotations that are no schema.
    NotImplementedError
        For tensors that can only be given by keyword.
    RuntimeError
        For a `schema` that is none, or other devices.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import numpy as np
    >>> @fg.library.custom_op("examples::sine", mutates_args=())
    ... def sine(x: fg.Tensor) -> fg.Tensor:
    ...     return fg.from_numpy(np.sin(x.numpy()))
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, grad):
    ...     [x] = ctx.saved_tensors
    ...     return grad * x.cos()
    >>> sine.register_autograd(backward, setup_context=setup_context)
    >>> x = fg.zeros(2, requires_grad=True)
    >>> fg.ops.examples.sine(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> del fg.ops.examples.sine
    """
    if fn is None:
        return lambda function: custom_op(
            name, function, mutates_args=mutates_args, device_types=device_types, schema=schema, tags=tags
        )
    qualified("custom_op", name)
    _need_callable("custom_op", "fn", fn)
    if schema is None:
        made = inferred(name, fn, mutates_args)
    else:
        made = parsed(name, schema)
        expected = {a.name for a in made.arguments if a.mutated}
        if mutates_args != "unknown" and expected != set(mutates_args):
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}`. The schema "
                f"suggests that the op mutates {expected or '{}'}, which is different from what was provided to us in "
                "`mutates_args`. Please make these consistent."
            )
    need_positional_tensors(made)
    op = CustomOpDef(made, fn)
    op.register_kernel(device_types, fn)
    namespaces.register(name, op)
    return op


def need_positional_tensors(schema: Schema) -> None:
    """Raise NotImplementedError for tensors that can only be given by keyword: a gradient belongs to a position."""
    if any(a.kwarg_only and a.base == "Tensor" for a in schema.arguments):
        raise NotImplementedError(
            f"custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {schema}"
        )
