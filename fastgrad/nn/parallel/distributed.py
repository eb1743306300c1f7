"""Data parallel training: every rank has the model, and gradients are averaged over ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastgrad.autograd.modes import is_grad_enabled
from fastgrad.cuda.selection import index_of
from fastgrad.distributed import collectives, objects
from fastgrad.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from fastgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from fastgrad.distributed.buckets import (
    DEFAULT_BUCKET_BYTES,
    DEFAULT_FIRST_BUCKET_BYTES,
    BuiltinCommHookType,
    need_comm_hook,
)
from fastgrad.distributed.coalesced import Mirror, broadcast_coalesced
from fastgrad.distributed.groups import need_member
from fastgrad.distributed.transport import ReduceOp
from fastgrad.distributed.work import Work
from fastgrad.dtypes import int64
from fastgrad.functions.arguments import need_type
from fastgrad.functions.creation import full
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.pytree import tensors_in
from fastgrad.nn.parallel.reducer import Reducer

BUILTIN = {
    BuiltinCommHookType.ALLREDUCE: allreduce_hook,
    BuiltinCommHookType.FP16_COMPRESS: fp16_compress_hook,
}


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over all ranks during backward.

    Every rank makes it of the same model, computes the loss of its part of the batch, and calls ``backward``. When that
    returns, the gradients of all ranks are the same. See docs/distributed.md for what runs in which order.

    Parameters
    ----------
    module : Module
        On the CPU, or on one GPU with the backend nccl. Parameters and buffers become those of rank 0.
    device_ids : list of int or device, optional
        The GPU of the module alone; inputs are not moved there.
    output_device : int or device, optional
        Likewise.
    dim : int
        Ignored on the CPU.
    broadcast_buffers : bool
        Give all ranks the buffers of rank 0 at the beginning and before each forward, as by default.
    init_sync : bool
        Compare parameters between ranks at the beginning, and send those of rank 0.
    process_group : ProcessGroup, optional
        By default that of all ranks.
    bucket_cap_mb : float, optional
        How many MiB of gradients are reduced together: by default 1 in the first bucket and 25 in the others.
    find_unused_parameters : bool
        Look, after each forward, which parameters the outputs do not depend on, and do not wait for their gradients.
    check_reduction : bool
        Ignored, as by PyTorch.
    gradient_as_bucket_view : bool
        Let gradients be views of the buckets, which saves their memory and a copy.
    static_graph : bool
        Each pass uses the same parameters, equally often: what the first one found out holds for all.
    delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh : None
        Not supported.
    skip_all_reduce_unused_params, batched_grad_copy : bool
        True is not supported.
    bucket_cap_mb_list : sequence of float, optional
        MiB of the first, second, ... bucket instead.
    forward_sync_buffers : bool, optional
        Whether all ranks get the buffers of rank 0 before each forward; at the beginning they do unless
        ``broadcast_buffers=False``.

    Attributes
    ----------
    module : Module
        The one given.

    Raises
    ------
    RuntimeError
        If no parameter requires grad, or parameters of ranks have different sizes.
    ValueError
        If the module is on a GPU, or there is no process group.
    NotImplementedError
        For options that are not supported.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> model = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(2, 1, bias=False))
    >>> model(fg.ones(4, 2)).mean().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> del model
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        Module.__init__(self)
        Joinable.__init__(self)
        need_type("DistributedDataParallel", module, Module, "module")
        _need_supported(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
            device_mesh=device_mesh,
            skip_all_reduce_unused_params=skip_all_reduce_unused_params or None,
            batched_grad_copy=batched_grad_copy or None,
        )
        self.process_group = need_member("DistributedDataParallel", process_group)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = _trained(module, ignored)
        _need_devices(module, device_ids, output_device, self.process_group)
        self.module, self.dim = module, dim
        self.broadcast_buffers = broadcast_buffers is not False
        self.forward_sync_buffers = (
            self.broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        )
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._kept_buffers = [b for name, b in module.named_buffers() if name not in ignored]
        self._kept_parameters = [p for name, p in module.named_parameters() if name not in ignored]
        self._mirror = Mirror(self._kept_buffers, self.process_group)
        self._by_initial_size, self._told = True, list[Work]()
        if init_sync:
            _need_equal(self.process_group, named)
            self._take_model(0)
        self.reducer = Reducer(
            [p for _, p in named],
            [name for name, _ in named],
            self.process_group,
            _limits(bucket_cap_mb, bucket_cap_mb_list),
            find_unused=find_unused_parameters,
            static=static_graph,
            as_views=gradient_as_bucket_view,
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives; the pass from it to the parameters will reduce their gradients."""
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        if syncs:
            self.reducer.need_finished()
        self.reducer.count = self._announce(syncs) if self._join_config.enable else None
        self._prepare_forward(syncs, joined=False)
        output = self.module(*inputs, **kwargs)
        if syncs:
            self.reducer.prepare(list(tensors_in(output)))
        return output

    def _prepare_forward(self, syncs: bool, *, joined: bool) -> None:
        """What all ranks do before a forward, those as well that have joined and run none."""
        if syncs:
            self.reducer.rebuild()
            self.reducer.settle()
        if self.will_sync_module_buffers():
            source = self._common_rank(not joined) if self._join_config.enable else 0
            if all(b.device.type == "cpu" for b in self._kept_buffers):
                self._mirror.take(source)
            else:
                broadcast_coalesced(self._kept_buffers, self.process_group, source)
        self.require_forward_param_sync = syncs

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward gives all ranks the buffers of one."""
        return self.require_forward_param_sync and self.forward_sync_buffers and bool(self._kept_buffers)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Passes from forwards in this context accumulate gradients on this rank alone; the next other one reduces all.

        Yields
        ------
        None
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # --- ranks without further batches; see Note [Joined ranks] in `distributed.algorithms.join` ---

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context in which ranks may have different numbers of batches.

        A rank that leaves it answers the calls of the others until they are through. In the end all have the model of
        the last one.

        Parameters
        ----------
        divide_by_initial_world_size : bool
            Divide the sum of the gradients by the number of ranks, as at the beginning; else by that of the ranks that
            still have batches. Communication hooks divide as they do.
        enable, throw_on_early_termination : bool
            As for `distributed.algorithms.Join`.

        Returns
        -------
        Join

        Examples
        --------
        >>> import fastgrad as fg
        >>> import fastgrad.distributed as dist
        >>> dist.init_process_group("mpi")
        >>> model = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(2, 1))
        >>> with model.join():
        ...     for x in [fg.ones(1, 2)] * (1 + dist.get_rank()):
        ...         model(x).sum().backward()
        >>> del model
        >>> dist.destroy_process_group()
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has joined, for `distributed.algorithms.Join`.

        Parameters
        ----------
        **kwargs
            ``divide_by_initial_world_size``, as for `join`; others are ignored.

        Returns
        -------
        JoinHook
        """
        self._by_initial_size = bool(kwargs.get("divide_by_initial_world_size", True))
        return _Answers(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self._kept_parameters[0].device

    @property
    def join_process_group(self) -> Any:
        """The group over which gradients are reduced."""
        return self.process_group

    def _announce(self, syncs: bool) -> Callable[[], int] | None:
        """Tell ranks that have joined whether an iteration reduces gradients; gives how many have batches."""
        self._wait_for_told()
        begun = Join.notify_join_context(self)
        number = full((1,), float(syncs))
        work = collectives.all_reduce(number, group=self.process_group, async_op=True)
        assert work is not None
        self._told = [work, *([] if begun is None else [begun])]

        def active() -> int:
            work.wait()
            return int(number.item())

        return None if self._by_initial_size else active

    def _wait_for_told(self) -> None:
        for work in self._told:
            work.wait()
        self._told = []

    def _answer_iteration(self) -> None:
        """Make the calls of an iteration of ranks that have batches."""
        self._wait_for_told()
        number = full((1,), 0.0)
        collectives.all_reduce(number, group=self.process_group)
        syncs = bool(number.item())
        self._prepare_forward(syncs, joined=True)
        if syncs:
            self.reducer.answer_pass()

    def _common_rank(self, here: bool) -> int:
        """The highest number in the group of the ranks that say so."""
        number = full((1,), self.process_group.rank() if here else -1, dtype=int64)
        collectives.all_reduce(number, ReduceOp.MAX, group=self.process_group)
        return int(number.item())

    def _take_model(self, source: int) -> None:
        """Let parameters, and buffers unless they are each rank's own, be those of a rank of the group."""
        kept = self._kept_parameters + self._kept_buffers * self.broadcast_buffers
        broadcast_coalesced(kept, self.process_group, source)

    # --- hooks ---

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Let a function reduce the gradients, instead of averaging them.

        Parameters
        ----------
        state : object
            What the hook gets first.
        hook : callable
            ``hook(state, bucket)`` gets a `distributed.GradBucket` as soon as its gradients are ready, in the order of
            the buckets, and returns a `futures.Future` of a tensor of the size and dtype of ``bucket.buffer()``.
            The sum is not divided by the number of ranks unless the hook does.

        Raises
        ------
        TypeError
            If the hook cannot be called.
        KeyError
            If it has no parameter named ``bucket``.
        ValueError
            If its annotations are others.
        RuntimeError
            If there is a hook.
        """
        found = need_comm_hook(hook)
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.state, self.reducer.hook = state, found

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        """Register one of the hooks that have a name.

        Parameters
        ----------
        comm_hook_type : BuiltinCommHookType
        """
        if not isinstance(comm_hook_type, BuiltinCommHookType):
            raise TypeError(
                "_register_builtin_comm_hook(): argument 'comm_hook_type' must be BuiltinCommHookType, not "
                f"{type(comm_hook_type).__name__}"
            )
        self.register_comm_hook(self.process_group, BUILTIN[comm_hook_type])


class _Answers(JoinHook):
    """What a rank that has joined does for a model."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        self.model._answer_iteration()

    def post_hook(self, is_last_joiner: bool) -> None:
        model = self.model
        model._wait_for_told()
        model._take_model(model._common_rank(is_last_joiner))


def _need_equal(group: Any, named: Sequence[tuple[str, Any]]) -> None:
    """Raise on every rank if the parameters of two have different sizes."""
    told: list[Any] = [None] * group.size()
    objects.all_gather_object(told, [(name, tuple(p.shape), str(p.dtype)) for name, p in named], group)
    root = group.ranks[0]
    for rank, theirs in zip(group.ranks, told, strict=True):
        if len(theirs) != len(told[0]):
            raise RuntimeError(
                f"DistributedDataParallel: rank {rank} has {len(theirs)} parameters that require grad, but rank "
                f"{root} has {len(told[0])}"
            )
        for (name, *own), (_, *first) in zip(theirs, told[0], strict=True):
            if own != first:
                raise RuntimeError(
                    f"DistributedDataParallel: parameter {name} has sizes {own[0]} and {own[1]} on rank {rank}, but "
                    f"{first[0]} and {first[1]} on rank {root}"
                )


def _limits(cap: float | None, caps: Sequence[float] | None) -> list[float]:
    """The sizes of buckets in bytes; a cap of the caller's holds for all."""
    if caps:
        return [limit for one in caps for limit in _limits(one, None)]
    if cap is None:
        return [DEFAULT_FIRST_BUCKET_BYTES, DEFAULT_BUCKET_BYTES]
    if not isinstance(cap, (int, float)) or isinstance(cap, bool):
        raise TypeError(
            f"DistributedDataParallel: argument 'bucket_cap_mb' must be float, not {type(cap).__name__}"
        )
    return [int(cap * 2**20)]


def _need_supported(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(
                f"DistributedDataParallel: argument '{name}' is not supported; leave it out"
            )


def _trained(module: Any, ignored: set[str]) -> list[tuple[str, Any]]:
    """The parameters whose gradients are reduced."""
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad and name not in ignored]
    if not named:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient."
        )
    return named


def _need_devices(module: Any, device_ids: Any, output_device: Any, group: Any) -> None:
    """The module lies where the group's backend reaches it, and where the caller says."""
    has_gpus = group.has_gpus
    found = {name: tensor.device for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    for name, device in found.items():
        if device.type != "cpu" and not (has_gpus and device.type == "cuda"):
            raise NotImplementedError(
                f"DistributedDataParallel: {name} lies on {device}; gradients on the CPU are reduced by the backend "
                "mpi, those on GPUs by nccl"
            )
    told = [*(device_ids or ()), *([] if output_device is None else [output_device])]
    devices = set(found.values())
    if told and (len(devices) != 1 or next(iter(devices)).type == "cpu"):
        raise ValueError(
            "DistributedDataParallel: device_ids and output_device are for GPUs, of which a module uses one; others "
            f"need None, got {told} and parameters on {', '.join(sorted(map(str, devices)))}"
        )
    for one in told:
        if index_of(one) != next(iter(devices)).index:
            raise ValueError(
                f"DistributedDataParallel: the module lies on {next(iter(devices))}, not on {one}"
            )
