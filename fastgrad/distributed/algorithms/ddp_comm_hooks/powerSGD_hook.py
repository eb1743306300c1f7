"""PowerSGD: averaging a low-rank approximation of gradients instead of them.

A gradient that is a matrix M of n x m is sent as two factors, P of n x r and Q of m x r, by one step of a power
iteration: P = M Q, averaged and orthogonalised; Q = transpose(M) P, averaged; then M is about P transpose(Q). What that
loses is added to the gradient of the next pass (error feedback), and Q is where the next pass begins (warm
start). See Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization", 2019.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.distributed.algorithms.ddp_comm_hooks.default_hooks import average, total
from fastgrad.distributed.buckets import GradBucket
from fastgrad.distributed.groups import get_world_size
from fastgrad.functions import orthogonal, reduce
from fastgrad.functions.arguments import need_type
from fastgrad.functions.creation import empty, randn, zeros
from fastgrad.functions.linalg import matmul
from fastgrad.functions.shape import cat, stack
from fastgrad.futures import Future
from fastgrad.random import Generator

logger = logging.getLogger(__name__)


class PowerSGDState:
    """The state of `powerSGD_hook` and `batched_powerSGD_hook`; one for each model.

    Parameters
    ----------
    process_group : ProcessGroup or None
        None for all ranks.
    matrix_approximation_rank : int
        Of the factors: 1 or 2 for most models.
    start_powerSGD_iter : int
        How many passes average gradients as they are; compression from the first passes on harms training.
    min_compression_rate : float
        A matrix is compressed if that makes it smaller by more than this factor.
    use_error_feedback, warm_start : bool
        See the module's description.
    orthogonalization_epsilon : float
        Added to the lengths of columns, against division by zero; 0 for an orthogonalisation by QR.
    random_seed : int
        Of the first factors, equal on all ranks.
    compression_stats_logging_frequency : int
        After how many passes `compression_stats` is logged.
    batch_tensors_with_same_shape : bool
        Multiply matrices of one shape together.

    Raises
    ------
    ValueError
        If error feedback or warm start is asked for from the first two passes on.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,  # noqa: N803 - PyTorch's name
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        if type(matrix_approximation_rank) is not int or matrix_approximation_rank < 1:
            raise ValueError(
                "PowerSGDState(): argument 'matrix_approximation_rank' must be an int of 1 or more, got "
                f"{matrix_approximation_rank!r}"
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Any] = {}
        self.p_memory_dict: dict[int, Any] = {}
        self.q_memory_dict: dict[int, Any] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.next_stats_report = 0

    def __getstate__(self) -> dict[str, Any]:
        """All but the group, which belongs to this run of the program."""
        logger.warning("the process group of a PowerSGDState is not saved")
        return {name: value for name, value in vars(self).items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.process_group = None
        vars(self).update(state)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a pass at its last bucket."""
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_powerSGD_iter:
                logger.info("Start to apply PowerSGD after %s iterations.", self.iter)

    def compression_stats(self) -> tuple[float, int, int]:
        """How much was saved so far.

        Returns
        -------
        tuple
            The rate, and the numbers of elements before and after compression.
        """
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after

    def count(self, bucket: GradBucket, before: int, after: int) -> None:
        """Count elements of a bucket, and log the rate now and then."""
        self.total_numel_before_compression += before
        self.total_numel_after_compression += after
        if bucket.is_last() and self.iter >= self.next_stats_report:
            logger.info(
                "Compression stats: iter %s, rate %s, before %s, after %s",
                self.iter,
                *self.compression_stats(),
            )
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Any]:  # noqa: N802 - PyTorch's name
    """Average gradients by PowerSGD, each matrix for itself; what is no matrix is averaged as it is.

    A gradient of more than two dimensions counts as a matrix of its first one by the others.

    Parameters
    ----------
    state : PowerSGDState
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer.
    """
    if _averages_yet(state, bucket):
        return average(bucket.buffer(), state.process_group)
    with no_grad():
        before = _with_error(state, bucket)
        chosen: dict[tuple[int, int], list[Any]] = defaultdict(list)
        plain: list[Any] = []
        numel_after = 0
        for gradient in bucket.gradients():
            matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() else gradient.view(1, 1)
            n, m = matrix.shape
            small = (n + m) * min(n, m, state.matrix_approximation_rank)
            if small * state.min_compression_rate < n * m:
                chosen[n, m].append(matrix)
                numel_after += small
            else:
                plain.append(gradient)
                numel_after += gradient.numel()
        state.count(bucket, bucket.buffer().numel(), numel_after)
        groups = list(_batches(chosen, state.batch_tensors_with_same_shape))
        factors_of = _Factors(state, bucket, [stack(group) for group in groups])
        flat = cat([g.reshape(-1) for g in plain]) if plain else bucket.buffer()[:0].clone()

    def unpack(done: Future[Any]) -> Any:
        with no_grad():
            for gradient, part in zip(plain, done.value().split([g.numel() for g in plain]), strict=True):
                gradient.copy_(part.view(gradient.shape))
        return factors_of.reduce_p()

    def decompress(done: Future[Any]) -> Any:
        done.value()
        with no_grad():
            for group, approximated in zip(groups, factors_of.products(), strict=True):
                for matrix, new in zip(group, approximated, strict=True):
                    matrix.copy_(new)
            return _remember(state, bucket, before)

    return average(flat, state.process_group).then(unpack).then(factors_of.reduce_q).then(decompress)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Any]:  # noqa: N802 - PyTorch's name
    """Average gradients by PowerSGD, the whole bucket as one square matrix: faster, and less exact.

    Parameters
    ----------
    state : PowerSGDState
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer.
    """
    if _averages_yet(state, bucket):
        return average(bucket.buffer(), state.process_group)
    buffer = bucket.buffer()
    length = buffer.numel()
    with no_grad():
        before = _with_error(state, bucket)
        side = math.ceil(math.sqrt(length))
        square = zeros(side * side, dtype=buffer.dtype)
        square[:length] = buffer
        state.count(bucket, length, 2 * side * min(side, state.matrix_approximation_rank))
        factors_of = _Factors(state, bucket, [square.view(1, side, side)])

    def decompress(done: Future[Any]) -> Any:
        done.value()
        with no_grad():
            [approximated] = factors_of.products()
            buffer.copy_(approximated.reshape(-1)[:length])
            return _remember(state, bucket, before)

    return factors_of.sum_p().then(factors_of.reduce_q).then(decompress)


# --- steps of both -----------------------------------------------------------------------------------------------


def _averages_yet(state: Any, bucket: GradBucket) -> bool:
    """Whether gradients are still averaged as they are."""
    need_type("powerSGD_hook", state, PowerSGDState, "state")
    if state.iter >= state.start_powerSGD_iter:
        return False
    state.maybe_increase_iter(bucket)
    return True


def _with_error(state: PowerSGDState, bucket: GradBucket) -> Any:
    """Add to the buffer what the pass before lost; returns what is to be approximated."""
    if not state.use_error_feedback:
        return None
    buffer = bucket.buffer()
    lost = state.error_dict.get(bucket.index())
    if lost is not None:
        buffer.add_(lost)
    return buffer.clone()


def _remember(state: PowerSGDState, bucket: GradBucket, before: Any) -> Any:
    """Keep what was lost, and count the pass; returns the buffer."""
    buffer = bucket.buffer()
    if before is not None:
        state.error_dict[bucket.index()] = before.sub_(buffer)
    if not state.warm_start:
        state.p_memory_dict.clear()
        state.q_memory_dict.clear()
    state.maybe_increase_iter(bucket)
    return buffer


def _batches(chosen: dict[tuple[int, int], list[Any]], together: bool) -> Iterator[list[Any]]:
    """Matrices that are multiplied together."""
    for matrices in chosen.values():
        if together:
            yield matrices
        else:
            yield from ([matrix] for matrix in matrices)


class _Factors:
    """The factors of a bucket's matrices: P of all of them in one tensor, and Q, so that each is one call.

    Parameters
    ----------
    state : PowerSGDState
    bucket : GradBucket
    matrices : list of Tensor
        3-dim: batches of matrices.
    """

    def __init__(self, state: PowerSGDState, bucket: GradBucket, matrices: Sequence[Any]) -> None:
        self.state, self.index, self.matrices = state, bucket.index(), matrices
        ranks = [min(*m.shape[1:], state.matrix_approximation_rank) for m in matrices]
        p_shapes = [(m.shape[0], m.shape[1], r) for m, r in zip(matrices, ranks, strict=True)]
        q_shapes = [(m.shape[0], m.shape[2], r) for m, r in zip(matrices, ranks, strict=True)]
        dtype = bucket.buffer().dtype
        fresh = not state.warm_start or self.index not in state.q_memory_dict
        if fresh:
            for memory, shapes in ((state.p_memory_dict, p_shapes), (state.q_memory_dict, q_shapes)):
                memory[self.index] = empty(sum(math.prod(s) for s in shapes), dtype=dtype)
        self.p, self.q = state.p_memory_dict[self.index], state.q_memory_dict[self.index]
        self.ps, self.qs = _views(self.p, p_shapes), _views(self.q, q_shapes)
        generator = Generator().manual_seed(int(state.rng.randint(1_000_000_000))) if fresh else None
        for matrix, p, q in zip(matrices, self.ps, self.qs, strict=True):
            if generator is not None:
                q.copy_(randn(*q.shape, generator=generator, dtype=dtype))
            orthogonalize(q, state.orthogonalization_epsilon)
            p.copy_(matmul(matrix, q))

    def sum_p(self) -> Future[Any]:
        """Begin to add the first factors of all ranks; that they are not divided does not matter to their direction."""
        return total(self.p, self.state.process_group)

    def reduce_p(self) -> Any:
        """Add the first factors of all ranks."""
        return self.sum_p().wait()

    def reduce_q(self, done: Future[Any]) -> Any:
        """With the first factors of all ranks, compute and average the second ones."""
        done.value()
        with no_grad():
            for matrix, p, q in zip(self.matrices, self.ps, self.qs, strict=True):
                orthogonalize(p, self.state.orthogonalization_epsilon)
                q.copy_(matmul(matrix.transpose(1, 2), p))
            collectives.all_reduce(self.q, group=self.state.process_group)
            return self.q.div_(get_world_size(self.state.process_group))

    def products(self) -> list[Any]:
        """What the factors stand for."""
        return [matmul(p, q.transpose(1, 2)) for p, q in zip(self.ps, self.qs, strict=True)]


def _views(memory: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    parts = memory.split([math.prod(s) for s in shapes]) if shapes else []
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def orthogonalize(matrices: Any, epsilon: float = 0) -> None:
    """Make the columns of each matrix of a batch orthogonal and of length one, in place.

    Parameters
    ----------
    matrices : Tensor
        3-dim.
    epsilon : float
        Added to lengths; 0 for an orthogonalisation by QR.
    """
    if epsilon == 0:
        wide = matrices if matrices.element_size() >= 4 else matrices.float()
        matrices.copy_(orthogonal.qr(wide)[0])
        return
    for k in range(matrices.shape[2]):
        column = matrices[:, :, k : k + 1]
        column.div_(reduce.sum(column * column, (1, 2), keepdim=True).sqrt() + epsilon)
        rest = matrices[:, :, k + 1 :]
        if rest.shape[2]:
            rest.sub_(matmul(column, matmul(column.transpose(1, 2), rest)))
