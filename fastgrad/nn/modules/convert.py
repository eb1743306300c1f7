"""Modules in another dtype or on another device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.conversion import parse_to
from fastgrad.functions.likeness import empty_like
from fastgrad.functions.memory_format import preserve_format
from fastgrad.native.contracts.formats import FORMAT_DIMS

Self = TypeVar("Self", bound="ConvertMethods")


class ConvertMethods:
    """The methods of `Module` that convert its parameters and buffers, in place."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable[[], Any]

    def _apply(self: Self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Let every parameter, its ``grad``, and every buffer be what a function makes of it.

        Parameters stay the same objects, with their hooks; buffers become other ones.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                grad = parameter.grad
                with no_grad():
                    parameter.data = fn(parameter)
                    if grad is not None:
                        grad.data = fn(grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Convert the floating-point parameters and buffers, and move all of them.

        ``to(dtype, non_blocking=False)``, ``to(device=None, dtype=None, non_blocking=False)`` or ``to(tensor,
        non_blocking=False)``.

        Parameters
        ----------
        dtype : dtype, optional
            A floating-point one.
        device : device, str or int, optional
        tensor : Tensor
            Stands for its dtype and device.
        non_blocking : bool
            See `Tensor.to`.
        memory_format : memory_format
            By name; for parameters and buffers with four dimensions (``channels_last``) or five.

        Returns
        -------
        Module
            This one.

        Raises
        ------
        TypeError
            If `dtype` is no floating-point one, or the arguments are of none of these forms.
        RuntimeError
            If they ask for a copy.

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Module()
        >>> m.w = fg.nn.Parameter(fg.zeros(1))
        >>> m.to(fg.float64).w.dtype
        fastgrad.float64
        """
        device, dtype, non_blocking, copy, layout = parse_to(args, kwargs)
        if copy:
            raise RuntimeError(".to() does not accept copy argument")
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        dims = FORMAT_DIMS[layout.code]  # others than those of the format stay as they are

        def convert(t: Any) -> Any:
            kind = dtype if t.is_floating_point() else None
            suits = dims in (0, t.ndim)
            return t.to(device, kind, non_blocking, memory_format=layout if suits else preserve_format)

        return self._apply(convert)

    def type(self: Self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self: Self) -> Self:
        """Convert the floating-point parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self: Self) -> Self:
        """Convert the floating-point parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self: Self) -> Self:
        """Convert the floating-point parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """Convert the floating-point parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self: Self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """Move all parameters and buffers to a GPU.

        Parameters
        ----------
        device : device, str, int or None
            The current GPU by default.

        Raises
        ------
        RuntimeError
            If the device is no GPU, or there is no such GPU.
        """
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self: Self) -> Self:
        """Move all parameters and buffers into memory that processes share; see `Tensor.share_memory_`.

        Raises
        ------
        RuntimeError
            If another tensor lies in the memory of one.
        """
        return self._apply(lambda t: t.share_memory_())

    def _no_device(self, name: str) -> NoReturn:
        raise RuntimeError(f"{type(self).__name__}.{name}(): fastgrad has no support for {name} devices")

    def ipu(self, device: Any = None) -> NoReturn:
        """Refuse: there are no such devices."""
        self._no_device("ipu")

    def mtia(self, device: Any = None) -> NoReturn:
        """Refuse: there are no such devices."""
        self._no_device("mtia")

    def xpu(self, device: Any = None) -> NoReturn:
        """Refuse: there are no such devices."""
        self._no_device("xpu")

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values.

        Parameters
        ----------
        device : device or str
        recurse : bool
            Those of the modules within as well.

        Returns
        -------
        Module
            This one.
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse)
