"""`opcheck`: whether what is registered for an op fits what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.autograd import grad
from fastgrad.autograd.modes import enable_grad, no_grad
from fastgrad.compiler import compile as compiled
from fastgrad.library.custom import CustomOpDef, leaves
from fastgrad.native.build.loader import TensorBase
from fastgrad.testing import assert_close


class OpCheckError(Exception):
    """A test of `opcheck` failed; the cause says how."""


def _copies(values: Any) -> Any:
    """Arguments with tensors of their own."""
    if isinstance(values, (list, tuple)):
        return type(values)(_copies(v) for v in values)
    if isinstance(values, dict):
        return {k: _copies(v) for k, v in values.items()}
    return values.detach().clone().requires_grad_(values.requires_grad) if _is_tensor(values) else values


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


def _test_schema(op: CustomOpDef, args: Any, kwargs: Any, close: Callable[..., None]) -> None:
    args, kwargs = _copies((args, kwargs))
    values = op._schema.bind(args, kwargs)
    before = _copies([list(leaves(v)) for v in values])
    with no_grad():
        op(*args, **kwargs)
    for argument, value, old in zip(op._schema.arguments, values, before, strict=True):
        pairs = [(a, b) for a, b in zip(leaves(value), old, strict=True) if _is_tensor(a)]
        changed = any(not bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in pairs)
        if changed and not argument.mutated:
            raise RuntimeError(
                f"{op._name}: for argument '{argument.name}': the operator's schema {op._schema} specified that the "
                "operator "
                "does not mutate the argument, but this seems to be empirically wrong. Please make the schema and "
                "operator "
                "behavior consistent: name the argument in mutates_args"
            )


def _floating(values: Any) -> list[Any]:
    return [v for v in leaves(values) if _is_tensor(v) and v.is_floating_point()]


def _test_autograd_registration(op: CustomOpDef, args: Any, kwargs: Any, close: Callable[..., None]) -> None:
    inputs = [v for v in _floating(list(args)) if v.requires_grad]
    if not inputs or op._schema.is_mutable:
        return
    args, kwargs = _copies((args, kwargs))
    with enable_grad():
        outputs = _floating(op(*args, **kwargs))
    if outputs and not any(o.requires_grad for o in outputs):
        raise RuntimeError(
            f"{op._qualname}: an input requires grad, but no output does; register a derivative by register_autograd"
        )
    _gradients(outputs, args)


def _gradients(outputs: list[Any], args: Any) -> list[Any]:
    inputs = [v for v in _floating(list(args)) if v.requires_grad]
    of = [o for o in outputs if o.requires_grad]
    if not of or not inputs:
        return []
    return list(grad([o.sum() for o in of], inputs, allow_unused=True))


def _test_faketensor(op: CustomOpDef, args: Any, kwargs: Any, close: Callable[..., None]) -> None:
    if op._fake is None:
        if not op._schema.returns:
            return
        raise RuntimeError(
            f"There was no fake impl registered for {op}. Please use `{op._name}.register_fake` to add an fake impl."
        )
    args, kwargs = _copies((args, kwargs))
    with no_grad():
        fakes = list(leaves(op._fake(*args, **kwargs)))
        reals = list(leaves(op(*args, **kwargs)))
    if len(fakes) != len(reals):
        raise RuntimeError(f"the fake impl of {op} returned {len(fakes)} values, but the op {len(reals)}")
    for fake, real in zip(fakes, reals, strict=True):
        if _is_tensor(fake) != _is_tensor(real):
            raise RuntimeError(
                f"the fake impl of {op} returned a {type(fake).__name__} for a {type(real).__name__}"
            )
        for what in ("shape", "dtype", "device") if _is_tensor(real) else ():
            made, wanted = getattr(fake, what), getattr(real, what)
            if made != wanted:
                raise RuntimeError(
                    f"the fake impl of {op} says that the {what} is {made}, but it is {wanted}"
                )


def _test_compiled(op: CustomOpDef, args: Any, kwargs: Any, close: Callable[..., None]) -> None:
    if op._schema.is_mutable:
        return
    call = compiled(lambda *args: op(*args, **kwargs))
    for _ in range(3):
        plain, other = _copies(tuple(args)), _copies(tuple(args))
        wanted, got = op(*plain, **kwargs), call(*other)
        for a, b in zip(_floating(got), _floating(wanted), strict=True):
            close(a.detach(), b.detach())
        pairs = zip(_gradients(_floating(got), other), _gradients(_floating(wanted), plain), strict=True)
        for a, b in pairs:
            if a is not None or b is not None:
                close(a, b)


_TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_dynamic": _test_compiled,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = tuple(_TESTS),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Whether what is registered for an op fits what it does with some arguments.

    Parameters
    ----------
    op : CustomOpDef
    args, kwargs : tuple, dict
        Copies of them are passed.
    test_utils : str or sequence of str
        ``"test_schema"``: only arguments that it says are changed. ``"test_autograd_registration"``: there is a
        derivative, and it runs. ``"test_faketensor"``: what `register_fake` says is so.
        ``"test_aot_dispatch_dynamic"``: `fastgrad.compile` gives the same values and gradients.
    raise_exception : bool
        Whether a failed test raises, or stands in the result.
    atol, rtol : float, optional
        Tolerances of comparisons; both or none.

    Returns
    -------
    dict
        By the names of tests ``"SUCCESS"``, or the exception.

    Raises
    ------
    OpCheckError
        If a test fails.
    ValueError
        For what is no op, other tests, or one tolerance alone.
    """
    if (atol is None) != (rtol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    if not isinstance(op, CustomOpDef):
        raise ValueError(f"opcheck(op, ...): op must be what custom_op or define made, got {type(op)}")
    names = tuple(_TESTS) if test_utils == "ALL" else test_utils
    names = (names,) if isinstance(names, str) else tuple(names)
    if not set(names) <= set(_TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of {tuple(_TESTS)} but it was not"
        )

    def close(a: Any, b: Any) -> None:
        assert_close(a, b, atol=atol, rtol=rtol, equal_nan=True)

    results: dict[str, Any] = {}
    for name in names:
        try:
            _TESTS[name](op, args, kwargs or {}, close)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
    return results
