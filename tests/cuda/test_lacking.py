"""What GPUs have no kernels for: what the code says, what calls say, and what docs/cuda.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad.kernels.cuda import compile as compilation
from fastgrad.ops.kernel_table import KERNELS

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"

ELSEWHERE = {
    "joined": "launches of the host's that become one; GPUs have `native.cuda.many`",
    "hook": "native hooks are functions of the host's",
    "permutation": "draws and shuffles at once; GPUs draw words, and shuffle by them",
}
"""Rows that no call on a GPU comes to, and what is done instead."""


def on_the_page() -> set[str]:
    """The names that the page says of that they are computed on the CPU alone."""
    text = PAGE.read_text("utf-8")
    items = re.split(r"\n(?:- |\n)", text)
    said = [item for item in items if "computed on the CPU alone" in item]
    return {name for item in said for name in re.findall(r"`([\w.]+)`", item)}


def test_nothing_is_lacking_and_the_page_says_so():
    assert set(compilation.lacking(KERNELS)) == set(ELSEWHERE)
    assert not on_the_page()


def test_the_page_names_what_the_packages_lack():
    [said] = [
        item for item in re.split(r"\n(?:- |\n)", PAGE.read_text("utf-8")) if item.startswith("Of PyTorch's")
    ]
    names = set(re.findall(r"`(\w+)`", said)) - {"cuda"}
    assert {"nccl", "MemPool", "memory_snapshot", "cublas_workspace_size"} <= names
    assert not {name for name in names for place in (fg.cuda, fg.backends.cuda) if hasattr(place, name)}


def test_what_is_lacking_is_refused_by_calls_that_say_what_to_do(driver, monkeypatch):
    monkeypatch.delitem(compilation.BUILDERS, "systems:ldl")
    with pytest.raises(NotImplementedError, match=r"no CUDA kernel for ldl .*\.cpu\(\)"):
        fg.linalg.ldl_factor(fg.eye(2, device="cuda"))
    fg.linalg.ldl_factor(fg.eye(2))  # the CPU does it


MATRICES = {
    "inv": fg.linalg.inv,
    "solve": lambda x: fg.linalg.solve(x, x),
    "det": fg.linalg.det,
    "cholesky": fg.linalg.cholesky,
    "eigh": fg.linalg.eigh,
    "svd": fg.linalg.svd,
    "qr": fg.linalg.qr,
    "pinv": fg.linalg.pinv,
    "matrix_exp": fg.linalg.matrix_exp,
}


@pytest.mark.parametrize("name", MATRICES)
def test_complex_matrices_are_left_to_the_cpu(driver, name):
    with pytest.raises(NotImplementedError, match=r"complex64.*\.cpu\(\)"):
        MATRICES[name](fg.eye(2, device="cuda", dtype=fg.complex64))


def test_eigenvectors_of_complex_matrices_on_a_gpu(driver):
    found = []
    for device in ("cpu", "cuda"):
        a = fg.tensor([[1 + 1j, 2.0], [0.5j, 3.0]], device=device, requires_grad=True)
        fg.linalg.eig(a).eigenvectors.abs().pow(3).sum().backward()
        found.append(a.grad.cpu())
    fg.testing.assert_close(*found)


def test_what_is_done_otherwise_is_lacking_and_works(driver):
    orders = [fg.randperm(100, device=d, generator=fg.Generator(d).manual_seed(1)) for d in ("cpu", "cuda")]
    assert orders[0].tolist() == orders[1].tolist()
    here = fg.arange(6.0).reshape(3, 2).requires_grad_()
    there = here.detach().to("cuda").requires_grad_()
    for x in (here, there):
        fg.cdist(x, x.detach() * 2 + 1).sum().backward()
    fg.testing.assert_close(there.grad.cpu(), here.grad)
    optimizers = [fg.optim.SGD([x], lr=0.1) for x in (here, there)]
    for optimizer in optimizers:
        optimizer.step()
    fg.testing.assert_close(there.detach().cpu(), here.detach())
