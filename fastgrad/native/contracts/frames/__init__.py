"""The frames of kernels: what the words are that a kernel gets, one module for each family."""

from __future__ import annotations

from fastgrad.native.contracts.frames import (
    attention,
    convolution,
    elementwise,
    filling,
    framed,
    fused,
    hooks,
    indexing,
    layers,
    linalg,
    losses,
    matrices,
    multi_tensor,
    norm_gradients,
    recurrent,
    reductions,
    sorting,
    windows,
)
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED

# What compiled code casts to by name; variants have the name, and the words, of the frame that they vary.
FRAMES = (
    elementwise.FLAT_FRAME, elementwise.STRIDED_FRAME, reductions.REDUCTION, reductions.ROWS,
    reductions.EXTREMES,
    matrices.GEMM, matrices.PANELS, matrices.TRIANGLE, indexing.GATHER, indexing.INDEX,
    indexing.NONZERO, losses.NLL, losses.PROBABILITIES,
    windows.PLANES, windows.POOLING, windows.MAX_POOLING, windows.MEAN_POOLING, windows.TO_PLACES, windows.PADDING,
    convolution.CONVOLUTION, attention.ATTENTION, filling.ZERO, filling.TRANSFER,
    filling.CONSTANT, filling.RANDOM, filling.SEQUENCE, filling.TRIANGLE_PLACES,
    multi_tensor.GROUP, multi_tensor.JOINED, *multi_tensor.STEPS, multi_tensor.NORM_PART,
    multi_tensor.SCALE, multi_tensor.UNSCALE, multi_tensor.CLIP,
    framed.FRAMED, framed.DROPOUT, framed.DROPOUT_AGAIN, framed.EMBEDDING, framed.EMBEDDING_BACKWARD,
    framed.CDIST, framed.CDIST_BACKWARD, framed.FFT, framed.FFT_OF_REALS, framed.FFT_TO_HALF, framed.FFT_FROM_HALF,
    framed.NORM, framed.NORM_CHANNELS, framed.NORM_BACKWARD, framed.NORM_WEIGHT, framed.NORM_FIXED_BACKWARD,
    framed.SAMPLE, framed.SHUFFLE, framed.SEARCH, framed.RUNNING, framed.RUNNING_EXTREME, framed.RUNNING_SHARES,
    *layers.LAYERS, *linalg.LINALG, norm_gradients.NORM_GRADIENTS, sorting.SORTING,
    recurrent.LSTM, recurrent.LSTM_BACKWARD, recurrent.GRU, recurrent.GRU_BACKWARD,
    recurrent.RNN, recurrent.RNN_BACKWARD, fused.FUSED_ROWS, hooks.HOOK,
)  # fmt: skip

__all__ = ["FLAT", "FRAMES", "INPLACE", "STRIDED"]
