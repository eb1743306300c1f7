"""fastgrad: automatic differentiation with PyTorch's interface and a compiled core.

Examples
--------
>>> import fastgrad as fg
>>> x = fg.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from fastgrad._version import __version__
from fastgrad import ops  # noqa: I001 - fills the tables that everything below reads
from fastgrad.dtypes import (
    bool_ as bool,  # noqa: A004
    dtype,
    float32,
    float64,
    get_default_dtype,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from fastgrad.tensor import Size, Tensor
from fastgrad.formatting import set_printoptions
from fastgrad.functions.creation import (
    arange,
    as_tensor,
    asarray,
    device,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    promote_types,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    result_type,
    tensor,
    zeros,
    zeros_like,
)
from fastgrad.functions.elementwise import (
    abs,  # noqa: A004
    absolute,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clamp,
    clip,
    cos,
    div,
    divide,
    eq,
    exp,
    floor_divide,
    fmod,
    ge,
    greater,
    greater_equal,
    gt,
    isnan,
    le,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    masked_fill,
    maximum,
    minimum,
    mul,
    multiply,
    ne,
    neg,
    negative,
    not_equal,
    pow,  # noqa: A004
    relu,
    remainder,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    sub,
    subtract,
    tanh,
    true_divide,
    where,
)
from fastgrad.functions.index import gather, index_select, scatter_add
from fastgrad.functions.linalg import bmm, dot, matmul, mm, mv
from fastgrad.functions.reduce import (
    all,  # noqa: A004
    amax,
    amin,
    any,  # noqa: A004
    argmax,
    argmin,
    cumsum,
    log_softmax,
    logsumexp,
    max,  # noqa: A004
    mean,
    min,  # noqa: A004
    prod,
    softmax,
    sum,  # noqa: A004
)
from fastgrad.functions.shape import (
    broadcast_to,
    cat,
    chunk,
    concat,
    concatenate,
    diagonal,
    flatten,
    moveaxis,
    movedim,
    narrow,
    permute,
    reshape,
    select,
    split,
    squeeze,
    stack,
    swapaxes,
    swapdims,
    t,
    transpose,
    tril,
    triu,
    unbind,
    unflatten,
    unsqueeze,
)
from fastgrad import autograd, debug, nn, optim
from fastgrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from fastgrad.random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from fastgrad.warm import warmup

float = float32  # noqa: A001
double = float64
int = int32  # noqa: A001
long = int64


def is_tensor(obj: object) -> object:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def clone(input: Tensor) -> Tensor:  # noqa: A002
    """A copy of a tensor, with history."""
    return input.clone()


def numel(input: Tensor) -> object:  # noqa: A002
    """The number of elements of a tensor."""
    return input.numel()
