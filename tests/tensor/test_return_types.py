"""Results with names: of which types they are, and how these read."""

from __future__ import annotations

import copy
import pickle

import pytest

import fastgrad as fg

R = fg.return_types


def _square(lib):
    return lib.tensor([[4.0, 1.0], [1.0, 3.0]])


CALLS = {
    "aminmax": lambda lib: lib.aminmax(_square(lib)),
    "cummax": lambda lib: lib.cummax(_square(lib), 0),
    "cummin": lambda lib: _square(lib).cummin(0),
    "frexp": lambda lib: lib.frexp(_square(lib)),
    "geqrf": lambda lib: lib.geqrf(_square(lib)),
    "histogram": lambda lib: lib.histogram(_square(lib), 2),
    "histogramdd": lambda lib: lib.histogramdd(_square(lib), [2, 2]),
    "kthvalue": lambda lib: _square(lib).kthvalue(1),
    "linalg_cholesky_ex": lambda lib: lib.linalg.cholesky_ex(_square(lib)),
    "linalg_eig": lambda lib: lib.linalg.eig(_square(lib)),
    "linalg_eigh": lambda lib: lib.linalg.eigh(_square(lib)),
    "linalg_inv_ex": lambda lib: lib.linalg.inv_ex(_square(lib)),
    "linalg_ldl_factor": lambda lib: lib.linalg.ldl_factor(_square(lib)),
    "linalg_ldl_factor_ex": lambda lib: lib.linalg.ldl_factor_ex(_square(lib)),
    "linalg_lstsq": lambda lib: lib.linalg.lstsq(_square(lib), _square(lib)),
    "linalg_lu": lambda lib: lib.linalg.lu(_square(lib)),
    "linalg_lu_factor": lambda lib: lib.linalg.lu_factor(_square(lib)),
    "linalg_lu_factor_ex": lambda lib: lib.linalg.lu_factor_ex(_square(lib)),
    "linalg_qr": lambda lib: lib.linalg.qr(_square(lib)),
    "linalg_slogdet": lambda lib: lib.linalg.slogdet(_square(lib)),
    "linalg_solve_ex": lambda lib: lib.linalg.solve_ex(_square(lib), _square(lib)),
    "linalg_svd": lambda lib: lib.linalg.svd(_square(lib)),
    "lu_unpack": lambda lib: lib.lu_unpack(*lib.linalg.lu_factor(_square(lib))),
    "max": lambda lib: _square(lib).max(0),
    "median": lambda lib: _square(lib).median(1),
    "min": lambda lib: lib.min(_square(lib), dim=0),
    "mode": lambda lib: _square(lib).mode(),
    "nanmedian": lambda lib: lib.nanmedian(_square(lib), 0),
    "qr": lambda lib: lib.qr(_square(lib)),
    "slogdet": lambda lib: lib.slogdet(_square(lib)),
    "sort": lambda lib: _square(lib).sort(),
    "svd": lambda lib: _square(lib).svd(),
    "topk": lambda lib: lib.topk(_square(lib), 1),
    "triangular_solve": lambda lib: lib.triangular_solve(_square(lib), _square(lib)),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_function_has_a_type(name):
    kind = getattr(R, name)
    for _ in range(3):  # a plan makes it as the function does
        found = CALLS[name](fg)
        assert type(found) is kind
        assert isinstance(found, tuple)
    fields = ",\n".join(f"{field}={value!r}" for field, value in zip(found._fields, found, strict=True))
    assert repr(found) == str(found) == f"fastgrad.return_types.{name}(\n{fields})"


def test_there_are_no_others():
    assert set(R.__all__) == set(CALLS) | {f"{name}_out" for name in CALLS if name != "histogramdd"}


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_they_read_as_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = CALLS[name](fg), CALLS[name](torch)
    assert type(theirs).__name__ == name
    assert len(ours) == len(theirs)
    heads = [line.partition("=")[0] for line in repr(theirs).splitlines() if line[0].isalpha()]
    assert [line.partition("=")[0] for line in repr(ours).splitlines() if line[0].isalpha()] == [
        heads[0].replace("torch", "fastgrad"), *heads[1:]
    ]  # fmt: skip


@pytest.mark.parity
def test_pytorch_has_them():
    torch = pytest.importorskip("torch")
    assert set(R.__all__) == set(torch.return_types.__all__) - {
        "all_return_types",
        "pytree_register_structseq",
    }


def test_they_are_made_of_sequences_and_of_fields():
    for found in (R.max((1, 2)), R.max([1, 2]), R.max(1, 2), R.max(values=1, indices=2), R.max(iter((1, 2)))):
        assert type(found) is R.max
        assert (found.values, found.indices) == found == (1, 2)
    with pytest.raises(
        TypeError, match=r"fastgrad.return_types.max\(\) takes a 2-sequence \(3-sequence given\)"
    ):
        R.max((1, 2, 3))
    with pytest.raises(TypeError):
        R.max(1, 2, 3)
    with pytest.raises(AttributeError):
        R.max(1, 2).more = 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("name", ["max", "linalg_svd", "lu_unpack"])
def test_copies_and_pickles_keep_the_type(name, copied):
    found = CALLS[name](fg)
    again = copied(found)
    assert type(again) is type(found)
    assert all(fg.equal(a, b) for a, b in zip(found, again, strict=True))


def test_results_that_were_written_to_out():
    outs = fg.empty(2), fg.empty(2, dtype=fg.int64)
    found = fg.max(_square(fg), 0, out=outs)
    assert type(found) is R.max_out
    assert found.values is outs[0]
    assert found.indices is outs[1]
    assert repr(found).startswith("fastgrad.return_types.max_out(\nvalues=")
    assert type(fg.linalg.qr(_square(fg), out=(fg.empty(0), fg.empty(0)))) is R.linalg_qr_out


def test_what_transforms_and_layers_make_of_them():
    x = _square(fg)
    mapped = fg.vmap(lambda row: row.max(0))(x)
    assert type(mapped) is R.max
    assert fg.equal(mapped.values, x.max(1).values)
    primals, tangents = fg.func.jvp(lambda t: t.sort(), (x,), (x,))
    assert type(primals) is R.sort
    assert type(tangents) is R.sort
    seen = []

    class Largest(fg.nn.Module):
        def forward(self, t):
            return t.max(0)

    layer = Largest()
    layer.register_forward_hook(lambda module, args, found: seen.append(type(found)))
    layer.register_full_backward_hook(lambda module, into, of: None)
    found = layer(x.requires_grad_())
    assert seen == [R.max]
    assert type(found) is R.max
    found.values.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    compiled = fg.compile(lambda t: t.max(0))
    assert all(type(compiled(x.detach())) is R.max for _ in range(4))


def test_lu_gives_what_pytorchs_gives():
    assert type(fg.lu(_square(fg))) is tuple
    assert repr(fg.lu(_square(fg), get_infos=True)).startswith("fastgrad.return_types._lu_with_info(\nLU=")
