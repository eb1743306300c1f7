"""The words for tensor cores: what they mean in the simulator, and the instructions that they become."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_compiling import needs_compiler
from cuda_halves import read, rounded
from cuda_simulator import TARGET, run_block

from fastgrad.kernels.cuda.cores import await_copies, copy_ahead, get_matrices, get_transposed
from fastgrad.kernels.cuda.device import WARP, barrier, exp2_flushed, thread
from fastgrad.native.contracts.element_types import BFLOAT16, DTYPES, FLOAT16, FLOAT32, HALVES, INT32

CODES = pytest.mark.parametrize("code", [FLOAT16, BFLOAT16, FLOAT32], ids=DTYPES.__getitem__)
pytestmark = pytest.mark.cudasim
ROWS, COLUMNS, DEEP = 16, 8, 8  # of a product, in words
PITCH = 12  # words


def product(target, code, turned=False):
    """``run((a, b, out))``: the sums of ``a @ b.T + 1`` by one warp, for 16 rows of a and 8 of b, of 8 words each.

    If b is turned, what stands there are 16 rows of 8 halves.
    """
    multiply, integers, floats = target.cores[code].multiply, target.elements[INT32], target.elements[FLOAT32]
    room, store, one = integers.shared(2 * ROWS * PITCH), floats.store, floats.constant(1)

    def run(f):
        lane, at = thread(), room()
        copy_ahead(at, lane // 2 * PITCH + lane % 2 * 4, f[0] + lane * 16, True)
        own = (
            lane if turned else lane // 2 * 3 + lane % 2
        )  # rows of b are of four words if it is turned, else of eight
        copy_ahead(at, ROWS * PITCH + own * 4, f[1] + lane * 16, lane < 16)
        await_copies()
        barrier()
        left = get_matrices(at, (lane % 16) * PITCH + lane // 16 * 4)
        if turned:
            right = get_transposed(at, ROWS * PITCH + lane % 16 * 4)
        else:
            right = get_matrices(at, (ROWS + lane % 8) * PITCH + lane // 8 % 2 * 4)
        sums = multiply((one, one, one, one), left, (right[0], right[1]))
        row, column = lane // 4, lane % 4 * 2
        store(f[2], row * COLUMNS + column, sums[0])
        store(f[2], row * COLUMNS + column + 1, sums[1])
        store(f[2], (row + 8) * COLUMNS + column, sums[2])
        store(f[2], (row + 8) * COLUMNS + column + 1, sums[3])

    return run


def compiled(run, architecture, words=3):
    """The PTX of a function of so many words, and what the assembler says."""
    from fastgrad.kernels.cuda import assemble, hardware
    from fastgrad.kernels.cuda.builder import Launch
    from fastgrad.native.contracts.cuda import PLAIN

    scope = {"run": hardware.target(True).made(run)}
    names = ", ".join(f"w{k}" for k in range(words))
    exec(f"def kernel({names}):\n    run(({names}))\n", scope)
    ptx = assemble._ptx(scope["kernel"], Launch(PLAIN, words, threads=WARP), WARP, architecture)
    return ptx, assemble._cubin(ptx, architecture)


def aligned(array):
    """A copy whose address is a multiple of 16."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    first = -room.ctypes.data % 16
    found = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def ran(run, threads, *arrays):
    """Run a function of the addresses of arrays on a block."""
    run_block(TARGET.made(run), tuple(np.int64(a.ctypes.data) for a in arrays), 0, threads, 1)


def one_stays_away(f):
    if thread() != 3:
        barrier()


def one_fails(f):
    if thread() == 3:
        raise ValueError("of one thread")
    barrier()


def test_threads_that_nobody_joins():
    with pytest.raises(RuntimeError, match=r"threads \[0, 1, 2, 4, 5\] of block 0 wait for others in vain"):
        run_block(one_stays_away, (), 0, 6, 1)
    with pytest.raises(ValueError, match="of one thread"):
        run_block(one_fails, (), 0, 6, 1)


def factors(rows, code, seed):
    values = (
        np.random.default_rng(seed).standard_normal((rows, 16 if code in HALVES else 8)).astype(np.float32)
    )
    if code in HALVES:
        return aligned(rounded(values, code))
    return aligned((values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))


@pytest.mark.cudasim
@CODES
def test_products_of_a_warp(code):
    a, b = factors(ROWS, code, 0), factors(COLUMNS, code, 1)
    x, y = read(a, code).astype(np.float64), read(b, code).astype(np.float64)
    out = np.zeros((ROWS, COLUMNS), np.float32)
    ran(product(TARGET, code), WARP, a, b, out)
    np.testing.assert_allclose(out, x @ y.T + 1, rtol=1e-6, atol=1e-6)
    if code in HALVES:
        out[...] = 0
        turned = aligned(np.ascontiguousarray(b.T))
        ran(product(TARGET, code, turned=True), WARP, a, turned, out)
        np.testing.assert_allclose(out, x @ y.T + 1, rtol=1e-6, atol=1e-6)


@pytest.mark.cudasim
@CODES
def test_floats_are_rounded_as_they_are_packed(code):
    values = np.array(
        [0, -0.0, 1 / 3, -1e-3, 1 + 2**-8, 1 + 3 * 2**-9, 65504, 1e-7, np.inf, -np.inf], np.float32
    )
    cores = TARGET.cores[code]
    if code == FLOAT32:
        found = np.array([cores.unpacked(cores.packed(x))[0] for x in values])
        np.testing.assert_allclose(found, values, rtol=2**-11)
        assert cores.unpacked(cores.packed(np.float32(1 + 2**-11)))[0] == np.float32(1 + 2**-10)
        return
    pairs = [cores.packed(x, y) for x, y in zip(values, values[::-1], strict=True)]
    bits = np.array(pairs, np.int32).view(np.uint16).reshape(-1, 2)
    np.testing.assert_array_equal(bits[:, 0], rounded(values, code))
    np.testing.assert_array_equal(bits[:, 1], rounded(values[::-1], code))
    np.testing.assert_array_equal([cores.unpacked(p) for p in pairs], read(bits, code))


@pytest.mark.cudasim
def test_what_is_copied_ahead_is_there_when_it_was_awaited():
    words, found = aligned(np.arange(8, dtype=np.int32)), []
    integers = TARGET.elements[INT32]
    room, get, put = integers.shared(12), integers.get, integers.put

    def run(f):
        at = room()
        for k in range(12):
            put(at, k, -1)
        copy_ahead(at, 4, f[0] + 16, True)
        copy_ahead(at, 8, f[0], False)
        found.append([get(at, k) for k in range(12)])
        await_copies()
        found.append([get(at, k) for k in range(12)])
        barrier()

    ran(run, 1, words)
    assert found == [[-1] * 12, [-1] * 4 + [4, 5, 6, 7] + [0] * 4]
    with pytest.raises(ValueError, match="16 bytes"):
        ran(run, 1, words[1:])


@pytest.mark.cudasim
def test_powers_of_two_below_normal_numbers_are_zero():
    assert [exp2_flushed(np.float32(x)) for x in (0, -126, -127, -np.inf, 3)] == [1, 2.0**-126, 0, 0, 8]


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "sm_120"])
@CODES
def test_products_become_single_instructions(code, architecture):
    from fastgrad.kernels.cuda import hardware

    kinds = {FLOAT16: "m16n8k16.row.col.f32.f16.f16.f32", BFLOAT16: "m16n8k16.row.col.f32.bf16.bf16.f32"}
    turned = code in HALVES
    ptx, (code_of_gpu, _) = compiled(product(hardware.target(True), code, turned), architecture)
    assert f"mma.sync.aligned.{kinds.get(code, 'm16n8k8.row.col.f32.tf32.tf32.f32')}" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx
    assert ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx) == turned
    assert ptx.count("cp.async.cg.shared.global") == 2
    assert "cp.async.wait_all" in ptx
    assert not re.search(r"\.local|\bcall|\.f64", ptx)
    assert code_of_gpu[:4] == b"\x7fELF"


@needs_compiler
@CODES
def test_floats_are_packed_by_single_instructions(code):
    from fastgrad.kernels.cuda import hardware

    target = hardware.target(True)
    cores, load, store = target.cores[code], target.elements[FLOAT32].load, target.elements[INT32].store
    packed, unpacked, widened = cores.packed, cores.unpacked, target.elements[FLOAT32].store

    def of_halves(f):
        store(f[1], 0, packed(load(f[0], 0), exp2_flushed(load(f[0], 1))))
        widened(f[1], 1, unpacked(packed(load(f[0], 2), load(f[0], 3)))[1])

    def of_tf32(f):
        store(f[1], 0, packed(exp2_flushed(load(f[0], 0))))
        widened(f[1], 1, unpacked(packed(load(f[0], 2)))[0])

    ptx, _ = compiled(of_halves if code in HALVES else of_tf32, "sm_90")
    names = {FLOAT16: "cvt.rn.f16x2.f32", BFLOAT16: "cvt.rn.bf16x2.f32", FLOAT32: "cvt.rna.tf32.f32"}
    assert ptx.count(names[code]) == 2
    assert ptx.count("ex2.approx.ftz.f32") == 1
    assert not re.search(r"\.local|\bcall|\.f64", ptx)


@needs_compiler
def test_older_gpus_have_no_cores():
    from fastgrad.kernels.cuda import hardware

    assert not hardware.target(False).cores
    assert set(hardware.target(True).cores) == set(TARGET.cores)
