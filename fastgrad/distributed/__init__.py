"""Programs of several processes, with PyTorch's interface over MPI: see docs/distributed.md.

``fastgrad launch -n 2 program.py`` or ``mpiexec -n 2 python program.py`` starts the processes, which are *ranks*.
"""

from fastgrad.distributed.backends import (
    Backend,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
)
from fastgrad.distributed.buckets import BuiltinCommHookType, GradBucket
from fastgrad.distributed.coalesced import all_gather_coalesced, all_reduce_coalesced
from fastgrad.distributed.collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from fastgrad.distributed.exchanges import all_to_all, all_to_all_single
from fastgrad.distributed.groups import (
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    new_group,
)
from fastgrad.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from fastgrad.distributed.point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from fastgrad.distributed.stores import (
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    Store,
)
from fastgrad.distributed.subgroups import new_subgroups, new_subgroups_by_enumeration
from fastgrad.distributed.tcp_store import TCPStore
from fastgrad.distributed.transport import DistBackendError, DistError, ReduceOp
from fastgrad.distributed.work import Work
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "Backend",
    "BuiltinCommHookType",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
]

__getattr__ = _getattr_of(__name__, dict.fromkeys(("algorithms", "nn", "optim")))
