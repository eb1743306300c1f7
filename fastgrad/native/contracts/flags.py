"""Bits: of tensors, of nodes, of passes, of a thread's modes."""

from __future__ import annotations

IS_PACKED = -1  # in place of the version of a saved tensor: a saved-tensor hook holds it

# Tensor flags.
REQUIRES_GRAD = 1
WRAPPED_NUMBER = 2  # made from a Python scalar: takes part in promotion by category only
RETAINS_GRAD = 4
IS_VIEW = 16
INFERENCE = 32
MULTI_VIEW = 64  # one of several views made by one op
NO_GRAD_VIEW = 128  # a view made while gradients were off
CONTIGUOUS = 256
LEAF_HOOKS = 512  # a leaf with tensor hooks
LEAF_POST_HOOKS = 1024  # a leaf with post-accumulate hooks
FUNCTION_VIEW = 2048  # a view that a custom function returned: it has a history of its own
COPY_ON_WRITE = 8192  # a gradient that a hook sees and that others hold: a change in place makes a copy first
OUTPUT_ALIAS = 4096  # stands for an output that its own node saved
INFERENCE_VIEW = 16384  # a view made in inference mode, of a tensor that was not
VIEW_ORIGIN = MULTI_VIEW | NO_GRAD_VIEW | FUNCTION_VIEW | INFERENCE_VIEW
"""What a view has of these, its own or that of the view it was made from, is why it cannot follow its base: it is not
changed in place where gradients are wanted, nor used there after its base was changed."""
OWN_COUNTER = 32768  # its changes are counted in the record `counter`, not in its storage
DETACHED = 65536  # its history was taken by `detach_`
CONJUGATED = (
    131072  # complex: read as the conjugate of what lies there; real: as its negative. Note [Conjugates]
)

# Node flags: each says that Python is due at some point of the sweep.
TENSOR_HOOKS = 1
PRE_HOOKS = 2
POST_HOOKS = 4
POST_ACCUMULATE = 8
PYTHON_APPLY = 16  # the node of a custom function
SAVED_FREED = 32
QUEUED = 64  # the node waits on the list of the dead
IN_VIEW = 256  # the node of a change of a view: as in PyTorch it does not run for an undefined gradient
PASS_THROUGH = 512  # a boundary: gradients go through it as they are
PACKED = 128  # saved-tensor hooks hold some of what it saved
KEEPS_LATE = 1024  # what computes its derivative writes kept gradients: it knows of more than what comes

# What the node of a custom function notes of each argument of the call.
NO_TENSOR, A_TENSOR, NEEDS_GRAD = 0, 1, 3

# Task flags.
KEEP_GRAPH = 1
CREATE_GRAPH = 2
FILTERED = 4  # only what leads to the requested captures runs
ACCUMULATE = 8  # backward(): gradients of leaves are accumulated
CHECK_NAN = 16  # no node may give NaN
REHEARSAL = 32  # a pass for a recording, whose results mean nothing: it ends at what it captures, hooks there included
COMPILED = 64  # the pass follows a plan

# Modes of a thread.
GRAD_ENABLED = 1
INFERENCE_MODE = 2
SAVED_HOOKS = 4  # saved-tensor hooks are in force
NODE_HOOKS = 8  # somebody wants to know of new nodes
MUTATION_HOOKS = 16  # somebody wants to know before tensors change in place
HOOKS_REFUSED = 32  # saved-tensor hooks may not be entered
ANOMALY = 64  # nodes note where they were made
ANOMALY_UNCHECKED = 128  # passes do not look for NaN in spite of that
AUTOCAST_BFLOAT16 = 256  # functions choose the dtype that they compute in, and products of matrices this one
AUTOCAST_FLOAT16 = 512
GPU_AUTOCAST_BFLOAT16 = 1024  # the same on GPUs
GPU_AUTOCAST_FLOAT16 = 2048
COMPILED_PASSES = 4096  # passes follow plans
EAGER_PASSES = 8192  # they do not, even where the process has switched that on
AUTOCAST_TURNED = 16384  # autocast of the CPU is off, and would choose float16
GPU_AUTOCAST_TURNED = 32768  # that of GPUs is off, and would choose bfloat16
AUTOCAST_UNCACHED = 65536  # programs asked for no cache of what autocast converts
WATCHED = NODE_HOOKS | ANOMALY
CPU_AUTOCAST = AUTOCAST_BFLOAT16 | AUTOCAST_FLOAT16
GPU_AUTOCAST = GPU_AUTOCAST_BFLOAT16 | GPU_AUTOCAST_FLOAT16
AUTOCAST = CPU_AUTOCAST | GPU_AUTOCAST
AUTOCAST_STATE = AUTOCAST | AUTOCAST_TURNED | GPU_AUTOCAST_TURNED
SWITCHES = (
    GRAD_ENABLED | INFERENCE_MODE | MUTATION_HOOKS | ANOMALY | ANOMALY_UNCHECKED | AUTOCAST_STATE
    | COMPILED_PASSES | EAGER_PASSES | AUTOCAST_UNCACHED
)  # fmt: skip
"""The modes that contexts switch as such. The others say which settings there are."""

# Settings of a thread: each is a chain of what contexts put in force, innermost first, as lists of two items.
SAVED_SETTING, REFUSAL_SETTING, NODE_SETTING = range(3)
SETTING_BITS = (SAVED_HOOKS, HOOKS_REFUSED, NODE_HOOKS)
N_SETTINGS = len(SETTING_BITS)
PASS_SETTINGS = (
    2  # changes of the first ones do not last beyond the node of a pass in whose course they happen
)
CAPTURE_SETTING = N_SETTINGS  # what a context does that is no setting of a thread: record launches
PROFILE_SETTING = N_SETTINGS + 1  # write a profile, which goes beyond one thread
