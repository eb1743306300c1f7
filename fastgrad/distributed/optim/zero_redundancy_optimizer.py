"""An optimizer whose state is divided between ranks.

Every rank has all parameters and gradients, but steps only a part of them, and keeps the state of that part alone; then
it sends what became of it to the others. See Rajbhandari, Rasley, Ruwase and He, "ZeRO: Memory Optimizations Toward
Training Trillion Parameter Models", 2020, of which this is the first stage.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives, objects
from fastgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from fastgrad.distributed.coalesced import begin_broadcast
from fastgrad.distributed.groups import need_member
from fastgrad.distributed.optim.utils import step_with
from fastgrad.distributed.transport import written
from fastgrad.functions.creation import empty
from fastgrad.native.build.loader import TensorBase
from fastgrad.optim.lbfgs import LBFGS
from fastgrad.optim.optimizer import Optimizer

logger = logging.getLogger(__name__)
NAME = "ZeroRedundancyOptimizer"


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is divided between ranks; the parameters become what another one would make of them.

    Parameters of a group go, the largest first, to the rank that has the fewest elements so far. After `step` all ranks
    have all parameters.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        Of one dtype, on the CPU, the same ones on all ranks.
    optimizer_class : type
        Of the optimizer that each rank makes for its part.
    process_group : ProcessGroup, optional
        By default that of all ranks.
    parameters_as_bucket_view : bool
        Let the parameters of each rank be views of one tensor, which is sent without a copy.
    overlap_with_ddp : bool
        Let the communication hook of `hook_with_zero_step` do the steps; `step` does nothing then. There can be one
        group only, and parameters are no views.
    **defaults
        Options of `optimizer_class`.

    Attributes
    ----------
    optim : Optimizer
        That of this rank's part.
    state : dict
        Of this rank's part.

    Raises
    ------
    TypeError, ValueError
        For parameters that are none, or of several dtypes, and for LBFGS.
    RuntimeError
        For several groups with `overlap_with_ddp`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> from fastgrad.distributed.optim import ZeroRedundancyOptimizer
    >>> dist.init_process_group("mpi")
    >>> model = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(2, 1, bias=False))
    >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), fg.optim.Adam, lr=0.1)
    >>> model(fg.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.consolidate_state_dict(to=0)
    >>> sorted(optimizer.state_dict()["state"][0]) if dist.get_rank() == 0 else None
    ['exp_avg', 'exp_avg_sq', 'step']
    >>> del model, optimizer
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(
                f"{NAME}: argument 'optimizer_class' must be a class of optimizers, got {optimizer_class!r}"
            )
        if issubclass(optimizer_class, LBFGS):
            raise ValueError(
                f"{NAME}: {optimizer_class.__name__} looks at all parameters at once and cannot step parts of them; "
                "use it without dividing its state"
            )
        self.process_group = need_member(NAME, process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.global_rank = self.process_group.ranks[self.rank]
        self.overlap_with_ddp = overlap_with_ddp
        self.parameters_as_bucket_view = parameters_as_bucket_view and not overlap_with_ddp
        self.optim: Any = None
        self._whole: dict[int, Any] | None = None  # the state of all ranks, if it was brought here
        self._buckets: list[tuple[Any, list[Any]]] = []
        groups = _groups_of(params)
        super().__init__(groups, defaults)
        Joinable.__init__(self)
        self.optim = optimizer_class(self._part(), **defaults)
        self.defaults = dict(self.optim.defaults)
        self.state = self.optim.state
        _copy_options(self.optim.param_groups, self.param_groups)
        self._make_buckets()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            f"{NAME}: it belongs to a process group and can be neither copied nor pickled; save state_dict() after "
            "consolidate_state_dict()"
        )

    # --- parts -------------------------------------------------------------------------------------------------

    def _partition_parameters(self) -> list[list[dict[str, Any]]]:
        """The groups of each rank, with its parameters alone."""
        parts: list[list[dict[str, Any]]] = [[] for _ in range(self.world_size)]
        sizes = [0] * self.world_size
        for group in self.param_groups:
            for part in parts:
                part.append({**group, "params": []})
            for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                owner = sizes.index(min(sizes))
                parts[owner][-1]["params"].append(p)
                sizes[owner] += p.numel()
        return parts

    def _part(self) -> list[dict[str, Any]]:
        return self._partition_parameters()[self.rank]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, on all ranks; those that are there stay where they are.

        Parameters
        ----------
        param_group : dict
            As for other optimizers, without names.
        """
        if self.overlap_with_ddp and self.param_groups:
            raise RuntimeError(f"{NAME} with `overlap_with_ddp=True` only supports a single parameter group")
        super().add_param_group(param_group)
        if self.optim is None:
            return
        _need_one_dtype(_all_parameters(self.param_groups))
        self.optim.add_param_group(self._part()[-1])
        _copy_options(self.optim.param_groups, self.param_groups)
        self._make_buckets()

    def _make_buckets(self) -> None:
        """Let the parameters of each rank that are trained be views of one tensor, if that is wanted."""
        self._trained = [p.requires_grad for p in _all_parameters(self.param_groups)]
        if not self.parameters_as_bucket_view:
            return
        self._buckets = []
        with no_grad():
            for groups in self._partition_parameters():
                params = _all_parameters(groups)
                for p in params:
                    if not p.requires_grad:  # it may be a view of a bucket that goes
                        p.data = p.detach().clone()
                trained = [p for p in params if p.requires_grad]
                dtype = self.param_groups[0]["params"][0].dtype
                bucket = empty(sum(p.numel() for p in trained), dtype=dtype)
                for p, view in zip(trained, bucket.split([p.numel() for p in trained]), strict=True):
                    p.data = view.view(p.shape).copy_(p.detach())
                self._buckets.append((bucket, trained))

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this rank's part of the parameters, and take those of the others. All ranks call it.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        **kwargs
            For the optimizer of this rank's part.

        Returns
        -------
        object
        """
        if self.overlap_with_ddp:
            logger.warning(
                "`step()` should not be included in the training loop when `overlap_with_ddp=True`"
            )
            return None
        Join.notify_join_context(self)
        if self._trained != [p.requires_grad for p in _all_parameters(self.param_groups)]:
            self._make_buckets()
        _copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        _copy_options(self.optim.param_groups, self.param_groups)
        for finish in list(self._begin_to_send()):  # all begin before the first is waited for
            finish()
        return loss

    def begin_bucket(self, params: Sequence[Any], grads: Sequence[Any]) -> list[Callable[[], None]]:
        """Step what is this rank's of the parameters of a bucket, and begin to exchange them all.

        Parameters
        ----------
        params, grads : sequence of Tensor
            On all ranks the same.

        Returns
        -------
        list of callable
            They wait for it.
        """
        owners = {
            id(p): k for k, groups in enumerate(self._partition_parameters()) for p in groups[0]["params"]
        }
        chosen: dict[int, list[tuple[Any, Any]]] = defaultdict(list)
        for p, grad in zip(params, grads, strict=True):
            if id(p) in owners:
                chosen[owners[id(p)]].append((p, grad))
        _copy_options(self.param_groups, self.optim.param_groups)
        if mine := chosen.get(self.rank):
            step_with(self.optim, *zip(*mine, strict=True))
        _copy_options(self.optim.param_groups, self.param_groups)
        return [
            begin_broadcast([p for p, _ in found], self.process_group, source)
            for source, found in sorted(chosen.items())
        ]

    def _begin_to_send(self) -> Iterable[Callable[[], None]]:
        """Begin to exchange all parts; gives what waits for each."""
        if self.parameters_as_bucket_view:
            for source, (bucket, params) in enumerate(self._buckets):
                yield self._send_bucket(source, bucket, params)
        else:
            for source, groups in enumerate(self._partition_parameters()):
                yield begin_broadcast(_all_parameters(groups), self.process_group, source)

    def _send_bucket(self, source: int, bucket: Any, params: Sequence[Any]) -> Callable[[], None]:
        work = collectives.broadcast(bucket, group=self.process_group, group_src=source, async_op=True)
        assert work is not None  # of a member

        def finish() -> None:
            work.wait()
            if source != self.rank:
                written(*params)  # which count their versions apart from those of the bucket

        return finish

    # --- state -------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all parts to one rank, where `state_dict` gives it then. All ranks call it.

        Parameters
        ----------
        to : int
            The number of the rank in the group.

        Raises
        ------
        ValueError
            If there is no such rank.
        """
        _copy_options(self.param_groups, self.optim.param_groups)
        numbers = self._numbers()
        mine = {numbers[id(p)]: value for p, value in self.optim.state.items()}
        told: list[Any] | None = [None] * self.world_size if to == self.rank else None
        objects.gather_object(mine, told, group=self.process_group, group_dst=to)
        whole = {k: value for part in told or () for k, value in part.items()}
        self._whole = None if told is None else dict(sorted(whole.items()))

    def _numbers(self) -> dict[int, int]:
        return {id(p): k for k, p in enumerate(_all_parameters(self.param_groups))}

    def state_dict(self) -> dict[str, Any]:
        """The state of all parts, as `consolidate_state_dict` brought it here; it looks like that of other optimizers.

        Returns
        -------
        dict

        Raises
        ------
        RuntimeError
            If it was not brought here.
        """
        if self._whole is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state."
            )
        params = _all_parameters(self.param_groups)
        self.state = defaultdict(dict, {params[k]: value for k, value in self._whole.items()})
        try:
            return super().state_dict()
        finally:
            self.state = self.optim.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` gave, also that of an optimizer without parts; this rank keeps its own.

        Parameters
        ----------
        state_dict : dict

        Raises
        ------
        ValueError
            If number or sizes of the groups differ.
        """
        super().load_state_dict(state_dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        part = self._part()
        own = {id(p) for p in _all_parameters(part)}
        kept = {p: deepcopy(value) for p, value in self.state.items() if id(p) in own}
        self.optim.__setstate__({"state": defaultdict(dict, kept), "param_groups": part})
        self.state = self.optim.state

    # --- ranks without further batches -------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has joined, for `distributed.algorithms.Join`: steps with the gradients that it has.

        `DistributedDataParallel` before it in the list of joinables gives it those of the other ranks.

        Parameters
        ----------
        **kwargs
            Ignored.

        Returns
        -------
        JoinHook
        """
        return _Steps(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The group between whose ranks the state is divided."""
        return self.process_group


class _Steps(JoinHook):
    """What a rank that has joined does for an optimizer."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer.step()


def _groups_of(params: Any) -> list[Any]:
    """The parameters or groups as a list, if they are what they should be."""
    if isinstance(params, TensorBase):
        raise TypeError(
            f"{NAME}: `params` argument should be an iterable of Tensors, but got Tensor; put it into a list"
        )
    try:
        found = list(params)
    except TypeError as error:
        raise TypeError(
            f"{NAME}: `params` argument should be an iterable of Tensors or dicts, but got {type(params).__name__}"
        ) from error
    if not found:
        raise ValueError(f"{NAME} got an empty parameter list")
    if all(isinstance(one, dict) for one in found):
        for k, group in enumerate(found):
            if "params" not in group:
                raise ValueError(
                    f"{NAME}: parameter group {k} must have its parameters under the key 'params'"
                )
            held = group["params"]
            group["params"] = [held] if isinstance(held, TensorBase) else list(held)
        params = _all_parameters(found)
    else:
        params = found
    _need_one_dtype(params)
    if len({id(p) for p in params}) < len(params):
        raise ValueError(f"{NAME}: some parameters appear more than once; leave out the second of each")
    return found


def _need_one_dtype(params: Sequence[Any]) -> None:
    for k, p in enumerate(params):
        if not isinstance(p, TensorBase):
            raise TypeError(
                f"{NAME}: `params` argument should be an iterable of Tensors or dicts, but parameter {k} is "
                f"{type(p).__name__}"
            )
        if p.device.type != "cpu":
            raise NotImplementedError(
                f"{NAME}: parameter {k} lies on {p.device}; the backend mpi sends memory of the CPU"
            )
        if p.dtype != params[0].dtype:
            raise ValueError(
                f"{NAME} only supports using the same dense type for all parameters but got both {params[0].dtype} and "
                f"{p.dtype}; make an optimizer for each dtype"
            )


def _all_parameters(groups: Sequence[dict[str, Any]]) -> list[Any]:
    return [p for group in groups for p in group["params"]]


def _copy_options(source: Sequence[dict[str, Any]], target: Sequence[dict[str, Any]]) -> None:
    """Let groups have the options of others, such as learning rates that a schedule has set."""
    for theirs, ours in zip(source, target, strict=True):
        ours.update((key, value) for key, value in theirs.items() if key != "params")
