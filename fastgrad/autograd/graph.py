"""The graph as users see it: nodes, edges, and hooks that belong to no single tensor."""

from fastgrad.autograd.anomaly import node_creation_hook
from fastgrad.autograd.edges import GradientEdge, get_gradient_edge
from fastgrad.autograd.engine import (
    _current_autograd_node,
    _current_graph_task_execution_order,
    _current_graph_task_id,
    _will_engine_execute_node,
    queue_callback,
)
from fastgrad.autograd.function_hook import FunctionPostHook, FunctionPreHook, PostAccumulateGradHook
from fastgrad.autograd.introspect import measure_hooks
from fastgrad.autograd.multi import register_multi_grad_hook, register_multi_post_accumulate_grad_hook
from fastgrad.autograd.mutation import allow_mutation_on_saved_tensors, increment_version
from fastgrad.autograd.node import Node
from fastgrad.autograd.saved import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = [
    "FunctionPostHook",
    "FunctionPreHook",
    "GradientEdge",
    "Node",
    "PostAccumulateGradHook",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_will_engine_execute_node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "measure_hooks",
    "node_creation_hook",
    "queue_callback",
    "register_multi_grad_hook",
    "register_multi_post_accumulate_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
