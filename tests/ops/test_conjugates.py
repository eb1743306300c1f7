"""Views of conjugates, and of negatives: what is read, what is written, and whose history changes, beside PyTorch."""

import copy
import io
import math
import pickle

import numpy as np
import pytest

import fastgrad as fg


def numbers(lib, *sizes, seed=0):
    """Complex numbers that both libraries get alike."""
    n = math.prod(sizes)
    values = [complex(math.sin(1.3 * k + seed), math.cos(0.7 * k + seed)) for k in range(n)]
    return lib.tensor(values, dtype=lib.complex128).reshape(sizes)


def plain(value):
    """A result as what can be compared: numbers, and whether they are read otherwise than they lie."""
    if hasattr(value, "is_conj"):
        resolved = value.detach().resolve_conj().resolve_neg()
        return np.asarray(resolved.tolist()), value.is_conj(), value.is_neg(), tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def same(ours, theirs):
    """Whether two results of `plain` agree, numbers to rounding."""
    if isinstance(ours, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, np.ndarray):
        return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-9, atol=1e-11, equal_nan=True)
    return ours == theirs


def beside(function):
    """Compare what a function of the library gives in both."""
    ours, theirs = (plain(function(lib)) for lib in (fg, pytest.importorskip("torch")))
    assert same(ours, theirs), (ours, theirs)


# --- what is a view ----------------------------------------------------------------------------------------------

VIEWS = {
    "conj": lambda x: x.conj(), "twice": lambda x: x.conj().conj(), "mH": lambda x: x.mH, "H": lambda x: x.H,
    "adjoint": lambda x: x.adjoint(), "transposed": lambda x: x.conj().t(), "row": lambda x: x.conj()[1],
    "reshaped": lambda x: x.conj().reshape(-1), "imag": lambda x: x.conj().imag, "real": lambda x: x.conj().real,
    "imag of a column": lambda x: x[:, 1:].conj().imag[:, 0], "expanded": lambda x: x[:1].conj().expand(3, 3),
    "detached": lambda x: x.conj().detach(), "split": lambda x: x.conj().split(1)[1],
    "unbound": lambda x: x.conj().unbind(1)[0], "diagonal": lambda x: x.conj().diagonal(),
    "strided": lambda x: x.conj().as_strided((2,), (2,)), "contiguous": lambda x: x.conj().contiguous(),
    "copied": lambda x: x.conj().t().contiguous(), "clone": lambda x: x.conj().clone(),
    "as it is": lambda x: +x.conj(), "same dtype": lambda x: x.conj().to(x.dtype),
    "resolved": lambda x: x.conj().resolve_conj(), "resolved negative": lambda x: x.conj().imag.resolve_neg(),
    "physical": lambda x: x.conj_physical(),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_those_of_pytorch(name):
    def look(lib):
        y = VIEWS[name](numbers(lib, 3, 3))
        return y, y.is_contiguous(), y.stride(), y._is_view()

    beside(look)


def test_a_view_shares_memory_and_versions():
    z = numbers(fg, 2)
    y = z.conj()
    before = z._version
    y.mul_(2)
    assert y.data_ptr() == z.data_ptr()
    assert z._version == y._version == before + 1


# --- what reads --------------------------------------------------------------------------------------------------

READS = {
    "sum": lambda c, z: c + z, "conjugates alone": lambda c, z: c * c, "negative": lambda c, z: -c.imag,
    "number": lambda c, z: c * 2j, "product": lambda c, z: c @ z.t(), "gram": lambda c, z: z.mH @ z,
    "mean": lambda c, z: c.mean(), "reduced": lambda c, z: c.sum(0), "multiplied": lambda c, z: c.prod(1),
    "lengths": lambda c, z: c.abs(), "item": lambda c, z: c[0, 0].item(), "list": lambda c, z: c.tolist(),
    "float": lambda c, z: float(c.imag[0, 0]), "mask": lambda c, z: c[:, [True, False, True, True]],
    "index": lambda c, z: c[[2, 0]], "rolled": lambda c, z: c.roll(1, 0), "flipped": lambda c, z: c.flip(0),
    "triangle": lambda c, z: c.tril(), "repeated": lambda c, z: c.repeat(2, 1),
    "imag of both": lambda c, z: c.imag @ z.real.t(), "running": lambda c, z: c.cumsum(0),
    "deviation": lambda c, z: c.std(), "sorted": lambda c, z: c.imag.sort().values,
    "largest": lambda c, z: c.imag.amax(0), "softmax": lambda c, z: c.imag.softmax(0),
    "double": lambda c, z: c.to(z.dtype), "half": lambda c, z: c.imag.half().float(),
    "diag": lambda c, z: c[:3, :3].diag(), "numbers": lambda c, z: [complex(v) for v in c[0]],
    "truth": lambda c, z: bool(c[0, 0]), "equal": lambda c, z: c.equal(c.clone()), "other": lambda c, z: c.equal(z),
    "array": lambda c, z: c.numpy(force=True).tolist(), "printed": lambda c, z: "e" in str(c),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_what_a_copy_holds(name):
    c, z = numbers(fg, 3, 4).conj(), numbers(fg, 3, 4, seed=2)
    found, expected = plain(READS[name](c, z)), plain(READS[name](c.resolve_conj(), z))
    assert same(found, expected) or same(found[0], expected[0])  # what a copy holds is no view


@pytest.mark.parity
@pytest.mark.parametrize("name", READS)
def test_reading(name):
    beside(lambda lib: READS[name](numbers(lib, 3, 4).conj(), numbers(lib, 3, 4, seed=2)))


# --- what writes -------------------------------------------------------------------------------------------------

WRITES = {
    "mul_": lambda lib, c, s: c.mul_(1 + 2j), "with itself": lambda lib, c, s: c.mul_(c),
    "item": lambda lib, c, s: c.__setitem__(0, 3j), "copy_": lambda lib, c, s: c.copy_(s[:1]),
    "conjugates": lambda lib, c, s: c.copy_(c.conj()), "zero_": lambda lib, c, s: c.zero_(),
    "imag": lambda lib, c, s: c.imag.fill_(3), "imag sum": lambda lib, c, s: c.imag.add_(5),
    "real": lambda lib, c, s: c.real.mul_(2), "index_copy_": lambda lib, c, s: c.index_copy_(0, lib.tensor([2, 0]), s),
    "index_add_": lambda lib, c, s: c.index_add_(0, lib.tensor([2, 0]), s.conj()),
    "scatter_": lambda lib, c, s: c.scatter_(0, lib.tensor([[1, 1, 0, 2]]), s),
    "index_put_": lambda lib, c, s: c.__setitem__(lib.tensor([2, 0]), s), "fill": lambda lib, c, s: c.fill_(2 - 1j),
    "masked_fill_": lambda lib, c, s: c.masked_fill_(lib.tensor([True, False, True, False]), 1j),
    "running": lambda lib, c, s: c.cumsum_(0), "root": lambda lib, c, s: c.sqrt_(),
    "physical": lambda lib, c, s: c.conj_physical_(), "addcmul_": lambda lib, c, s: c.addcmul_(s[:1], s[1:]),
    "triangle": lambda lib, c, s: c.tril_(), "out": lambda lib, c, s: lib.mul(s[:1], s[1:], out=c[:1]),
    "product": lambda lib, c, s: lib.mm(s, s.mH, out=c[:2, :2]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_arrives_as_its_conjugate(name):
    z, s = numbers(fg, 3, 4), numbers(fg, 2, 4, seed=5)
    copy = z.conj_physical()
    WRITES[name](fg, z.conj(), s)
    WRITES[name](fg, copy, s)
    assert same(plain(z), plain(copy.conj_physical()))


@pytest.mark.parity
@pytest.mark.parametrize("name", WRITES)
def test_writing(name):
    def write(lib):
        z = numbers(lib, 3, 4)
        WRITES[name](lib, z.conj(), numbers(lib, 2, 4, seed=5))
        return z

    beside(write)


def test_random_numbers_arrive_as_they_are_drawn():
    fg.manual_seed(3)
    drawn = fg.empty(4, dtype=fg.complex64).normal_()
    fg.manual_seed(3)
    z = fg.zeros(4, dtype=fg.complex64)
    y = z.conj()
    y.normal_()
    assert y.equal(drawn)
    assert z.equal(drawn.conj())


# --- histories ---------------------------------------------------------------------------------------------------

LOOKS = {
    "conj": lambda lib, b: b.conj(), "real": lambda lib, b: b.real, "imag": lambda lib, b: b.imag,
    "imag of conj": lambda lib, b: b.conj().imag, "pairs": lambda lib, b: lib.view_as_real(b),
    "transposed": lambda lib, b: b.t().conj(), "again": lambda lib, b: lib.view_as_complex(lib.view_as_real(b)),
    "row": lambda lib, b: b[0].conj(), "column": lambda lib, b: b[:, 1].imag, "base": lambda lib, b: b,
}  # fmt: skip


def loss_of(v):
    """A real number that depends on each element of a view in its own way."""
    total = (v * v.detach() * (1 if not v.is_complex() else 1 + 2j)).sum()
    return total if not v.is_complex() else total.real + total.imag / 2


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("change", LOOKS)
def test_derivatives_of_changes(change, look):
    def function(a):
        b = a * (1 + 0.5j)
        changed, seen = LOOKS[change](fg, b), LOOKS[look](fg, b)
        changed.mul_(1.5).add_(0.25)
        return seen * 2

    assert fg.autograd.gradcheck(function, (numbers(fg, 2, 3).requires_grad_(),), fast_mode=True)


@pytest.mark.parity
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("change", LOOKS)
def test_a_change_through_one_view_is_one_of_the_others(change, look):
    def run(lib):
        a = numbers(lib, 2, 3).requires_grad_()
        b = a * (1 + 0.5j)
        changed, seen = LOOKS[change](lib, b), LOOKS[look](lib, b)
        changed.mul_(1.5).add_(0.25)
        loss_of(seen).backward()
        return a.grad, seen, changed

    beside(run)


@pytest.mark.parametrize(
    "kind", ["complex view", "conjugates", "the view itself", "pairs of three dimensions"]
)
def test_complex_views_of_reals(kind):
    def run(lib):
        a = lib.arange(1.0, 9.0, dtype=lib.float64).reshape(2, 4).requires_grad_()
        b = a * 2
        v = lib.view_as_complex(b.reshape(2, 2, 2) if kind.startswith("pairs") else b[:, :2])
        v = v.conj() if kind in ("conjugates", "the view itself") else v
        v.mul_(2 - 1j)
        loss_of(v if kind == "the view itself" else b).backward()
        return a.grad, b, v

    beside(run)


@pytest.mark.parity
def test_nodes_are_those_of_pytorch():
    def names(lib):
        b = numbers(lib, 2).requires_grad_() * 1
        v = b.conj()
        first = type(v.grad_fn).__name__
        v.mul_(1j)
        return (
            first,
            type(v.grad_fn).__name__,
            type(b.grad_fn).__name__,
            (v * v).grad_fn._saved_self.is_conj(),
        )

    beside(names)


def test_leaves_are_guarded_through_their_conjugates():
    leaf = numbers(fg, 2).requires_grad_()
    for view in (leaf.conj(), leaf.imag, leaf.conj().imag):
        with pytest.raises(RuntimeError, match="leaf"):
            view.mul_(2)


@pytest.mark.parity
def test_a_saved_view_knows_of_changes():
    def run(lib):
        b = numbers(lib, 2).requires_grad_() * 1
        out = b.conj() * b.conj()
        b.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().abs().backward()

    run(fg)
    run(pytest.importorskip("torch"))


@pytest.mark.parametrize("function", [
    lambda x: x.conj() * x, lambda x: x.mH @ x, lambda x: x.conj().imag * x.real, lambda x: x.conj().real.sum() * x,
    lambda x: (x.conj() / (x.abs() + 1)).sum(0),
])  # fmt: skip
def test_derivatives(function):
    x = numbers(fg, 2, 2).requires_grad_()
    assert fg.autograd.gradcheck(function, (x,), check_forward_ad=True)
    assert fg.autograd.gradgradcheck(function, (x,))


def test_gradcheck_refuses_to_change_what_lies_otherwise():
    with pytest.raises(RuntimeError, match="view of conjugates"):
        fg.autograd.gradcheck(lambda x: x * 2, (numbers(fg, 2).conj().detach().requires_grad_(),))


def test_gradients_by_transforms():
    z = numbers(fg, 3, 2)
    assert fg.func.vmap(lambda row: row.conj() * 2)(z).equal(z.conj() * 2)
    value, tangent = fg.func.jvp(lambda x: x.conj() * 2j, (z,), (z * 3,))
    assert value.equal(z.conj() * 2j)
    assert fg.allclose(tangent, (z * 3).conj() * 2j)


@pytest.mark.parity
def test_hooks_may_return_conjugates():
    def run(lib):
        x = numbers(lib, 3).requires_grad_()
        y = x * (2 + 1j)
        y.register_hook(lambda g: g.conj())
        (y * y).sum().abs().backward()
        first = x.grad.clone()
        (x * 1j).sum().abs().backward()
        return first, x.grad.clone()

    beside(run)


@pytest.mark.parity
def test_saved_tensor_hooks_see_the_view():
    def run(lib):
        seen = []
        x = numbers(lib, 2).requires_grad_()
        with lib.autograd.graph.saved_tensors_hooks(
            lambda t: seen.append(t.is_conj()) or t.clone(), lambda t: t
        ):
            out = x.conj() * x
        out.sum().abs().backward()
        return seen, x.grad

    beside(run)


# --- going out ---------------------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize("library", ["fastgrad", "torch"])
def test_arrays_and_capsules_are_refused(library):
    lib = pytest.importorskip(library)
    y = numbers(lib, 2).conj()
    for view in (y, y.imag):
        with pytest.raises(RuntimeError, match="bit set"):
            view.numpy()
        with pytest.raises(RuntimeError, match="bit set"):
            np.asarray(view)
    with pytest.raises(BufferError, match="conjugate bit set"):
        y.__dlpack__()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        lib.view_as_real(y)
    with pytest.raises(RuntimeError, match="not supported for conjugate view"):
        y.view(lib.float64)


def test_capsules_of_negatives_are_refused():
    with pytest.raises(BufferError, match="negative bit set"):  # PyTorch gives numbers of the other sign
        numbers(fg, 2).conj().imag.__dlpack__()
    with pytest.raises(RuntimeError, match="negated"):
        fg.view_as_complex(numbers(fg, 4).conj().imag.reshape(2, 2))


def test_copies_and_pickles():
    z = numbers(fg, 2, 2)
    for view in (z.conj(), z.conj().imag, z.mH[0]):
        for made in (copy.deepcopy(view), pickle.loads(pickle.dumps(view)), copy.copy(view)):
            assert made.equal(view)
            assert type(made) is fg.Tensor
        assert pickle.loads(pickle.dumps(view)).is_conj() == view.is_conj()
    whole, turned = pickle.loads(pickle.dumps((z, z.conj())))
    whole.zero_()
    assert not turned.any()  # one memory, as before


@pytest.mark.parity
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_both_libraries(weights_only):
    torch = pytest.importorskip("torch")
    for first, second, written in ((fg, torch, {"format": "torch"}), (torch, fg, {}), (fg, fg, {})):
        z = numbers(first, 2, 2)
        for saved in ({"z": z, "conj": z.conj()}, {"imag": z.conj().imag}):
            file = io.BytesIO()
            first.save(saved, file, **written)
            file.seek(0)
            found = second.load(file, **({"weights_only": weights_only} if second is torch else {}))
            for key, value in saved.items():
                assert (found[key].is_conj(), found[key].is_neg()) == (value.is_conj(), value.is_neg())
                assert found[key].tolist() == value.tolist()


def test_loaders_and_processes():
    z = numbers(fg, 4)

    class Samples(fg.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, k):
            return z.conj()[k]

    loader = fg.utils.data.DataLoader(Samples(), batch_size=2, num_workers=1)
    assert fg.cat(list(loader)).equal(z.conj())
    loader = fg.utils.data.DataLoader(Samples(), batch_size=None, num_workers=1)
    assert fg.stack(list(loader)).equal(z.conj())


def test_shared_memory_keeps_the_view():
    view = numbers(fg, 4).conj()
    before = view.clone()
    assert view.share_memory_() is view
    assert view.is_conj()
    assert view.equal(before)


def test_compiled_calls_tell_views_apart():
    function = fg.compile(lambda x: (x * 2, x.conj(), x.conj().imag))
    for k in range(4):
        z = numbers(fg, 3, seed=k)
        for given in (z, z.conj(), z + 0):
            doubled, turned, imag = function(given)
            assert doubled.equal(given * 2)
            assert turned.equal(given.conj())
            assert imag.equal(given.conj().imag)
            assert turned.is_conj() != given.is_conj()
            x = given.detach().clone().requires_grad_()
            fg.compile(lambda v: (v.conj() * v * v).sum().abs())(x).backward()
            expected = given.detach().clone().requires_grad_()
            (expected.conj() * expected * expected).sum().abs().backward()
            assert fg.allclose(x.grad, expected.grad)


@pytest.mark.parity
@pytest.mark.parametrize("library", ["fastgrad", "torch"])
def test_optimizers_refuse_parameters_that_are_conjugates(library):
    lib = pytest.importorskip(library)
    p = lib.nn.Parameter(numbers(lib, 3).conj())
    p.grad = numbers(lib, 3)
    with pytest.raises(RuntimeError, match="unresolved conjugated"):
        lib.optim.Adam([p], lr=0.1).step()


@pytest.mark.parity
@pytest.mark.parametrize("name", ["add_", "sub_"])
@pytest.mark.parametrize("view", [lambda z: z.mH, lambda z: z.t().conj(), lambda z: z.conj()[:1]])
def test_a_matrix_may_take_in_its_own_adjoint(name, view):
    """What is read is a copy, as PyTorch's is, so that sharing memory with what is written does no harm."""
    pytest.importorskip("torch")

    def change(lib):
        leaf = numbers(lib, 3, 3).requires_grad_()
        z = leaf * 1
        getattr(z, name)(view(z.detach()))
        z.abs().sum().backward()
        return z, leaf.grad

    beside(change)


def test_overlapping_conjugates_are_copied_and_indexed():
    z = numbers(fg, 3, 3)
    want = z.detach().clone()
    z.copy_(z.mH)
    assert fg.equal(z, want.clone().mH)
    z.conj().index_add_(0, fg.tensor([0]), z[1:2])
    expected = want.mH.clone()
    expected[0] = (expected[0].conj() + expected[1]).conj()
    assert fg.allclose(z, expected)
