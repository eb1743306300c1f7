"""Packages of one library in the other, and what both make of the same projects."""

from __future__ import annotations

import importlib
import io
import random
import sys
import zipfile

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import package as fg_package

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning"),
]

IMAGE = (2, 2, 4, 4)
SEQUENCE = (3, 2, 4)
LAYERS = {
    "linear": (lambda nn: nn.Linear(4, 3), SEQUENCE),
    "stack": (
        lambda nn: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0), nn.GELU(), nn.Softmax(-1)),
        (2, 4),
    ),
    "conv": (lambda nn: nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2)), IMAGE),
    "transposed": (lambda nn: nn.ConvTranspose2d(2, 3, 3), IMAGE),
    "batch norm": (lambda nn: nn.BatchNorm2d(2), IMAGE),
    "instance norm": (lambda nn: nn.InstanceNorm2d(2, affine=True), IMAGE),
    "layer norm": (lambda nn: nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4)), SEQUENCE),
    "group norm": (lambda nn: nn.GroupNorm(1, 2), IMAGE),
    "padding": (lambda nn: nn.Sequential(nn.ZeroPad2d(1), nn.ReflectionPad2d(1)), IMAGE),
    "upsample": (lambda nn: nn.Upsample(scale_factor=2), IMAGE),
    "prelu": (lambda nn: nn.PReLU(), SEQUENCE),
    "rnn": (lambda nn: nn.RNN(4, 3), SEQUENCE),
    "lstm": (lambda nn: nn.LSTM(4, 3, 2, bidirectional=True), SEQUENCE),
    "gru": (lambda nn: nn.GRU(4, 3), SEQUENCE),
    "encoder": (lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), SEQUENCE),
}


def both():
    """The packages and the libraries, by names."""
    torch = pytest.importorskip("torch")
    return {"torch": (torch, importlib.import_module("torch.package")), "fastgrad": (fg, fg_package)}


def moved(source, target, obj, **options):
    """What `target` loads of a package of an object that `source` wrote."""
    libraries = both()
    file = io.BytesIO()
    with libraries[source][1].PackageExporter(file) as e:
        e.save_pickle("res", "a.pkl", obj, **options)
    file.seek(0)
    return libraries[target][1].PackageImporter(file).load_pickle("res", "a.pkl")


DTYPES = [
    "bool", "float16", "bfloat16", "float64", "complex64", "complex128", "uint8", "int8", "int16", "int32", "int64",
    "uint16", "uint32",
]  # fmt: skip
WAYS = [("torch", "fastgrad"), ("fastgrad", "torch"), ("fastgrad", "fastgrad")]


@pytest.mark.parametrize(("source", "target"), WAYS)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer, source, target):
    make, shape = LAYERS[layer]
    libraries = both()
    module = make(libraries[source][0].nn).eval()
    found = moved(source, target, module)
    assert isinstance(found, libraries[target][0].nn.Module)
    assert not found.training
    given = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    expected, got = (
        lib(m, given)
        for lib, m in ((outputs(libraries[source][0]), module), (outputs(libraries[target][0]), found))
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    shown = repr(make(libraries[target][0].nn).eval())
    assert repr(found) == shown.replace("NonDynamicallyQuantizableLinear", "Linear")


def outputs(lib):
    def run(module, given):
        with lib.no_grad():
            out = module(lib.tensor(given))
        return (out[0] if isinstance(out, tuple) else out).numpy()

    return run


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize(("source", "target"), WAYS)
def test_tensors(source, target, protocol):
    libraries = both()
    lib, other = libraries[source][0], libraries[target][0]
    x = lib.arange(12.0).reshape(3, 4)
    given = {
        "whole": x, "part": x[1:, ::2], "turned": x.t(), "none": lib.ones(0, 3), "single": lib.tensor(2.5),
        "expanded": lib.ones(3).expand(2, 3), "leaf": lib.ones(2, requires_grad=True),
        "parameter": lib.nn.Parameter(lib.ones(2), requires_grad=False),
    }  # fmt: skip
    for name in DTYPES:
        given[name] = lib.ones(3, dtype=getattr(lib, name))
    found = moved(source, target, given, pickle_protocol=protocol)
    for name, tensor in given.items():
        got = found[name]
        assert str(got.dtype).partition(".")[2] == str(tensor.dtype).partition(".")[2]
        assert (tuple(got.shape), got.stride(), got.requires_grad, got.is_leaf) == (
            tuple(tensor.shape), tensor.stride(), tensor.requires_grad, True,
        )  # fmt: skip
        assert got.tolist() == tensor.tolist()
    assert isinstance(found["parameter"], other.nn.Parameter)
    found["whole"].zero_()
    assert found["part"].sum().item() == 0


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_what_stands_beside_tensors(source, target):
    lib, other = (both()[name][0] for name in (source, target))
    found = moved(
        source, target, [lib.float32, lib.device("cpu"), lib.device("cuda", 1), lib.Size([2, 3]), lib.strided]
    )
    assert found == [
        other.float32,
        other.device("cpu"),
        other.device("cuda", 1),
        other.Size([2, 3]),
        other.strided,
    ]
    noted = lib.ones(2)
    noted.note = [1, "x"]
    parameter = lib.nn.Parameter(lib.ones(1))
    parameter.note = 5
    found = moved(source, target, [noted, parameter, lib.nn.functional.relu, lib.nn.Buffer(lib.ones(1))])
    assert (found[0].note, found[1].note) == ([1, "x"], 5)
    assert found[2] is other.nn.functional.relu
    assert isinstance(found[3], other.nn.Buffer)


def test_state_of_a_model_goes_on_training():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x = [[1.0, 2.0], [3.0, -1.0]]
    model(torch.tensor(x)).sum().backward()
    optimizer.step()
    state = moved("torch", "fastgrad", {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    here = fg.nn.Linear(2, 1)
    here.load_state_dict(state["model"])
    own = fg.optim.Adam(here.parameters(), lr=0.1)
    own.load_state_dict(state["optimizer"])
    optimizer.zero_grad()
    for lib, net, opt in ((torch, model, optimizer), (fg, here, own)):
        net(lib.tensor(x)).sum().backward()
        opt.step()
    np.testing.assert_allclose(here.weight.detach().numpy(), model.weight.detach().numpy(), rtol=1e-5)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}, "NAdam": {}, "RAdam": {}, "Adamax": {},
    "Rprop": {}, "RMSprop": {"momentum": 0.5}, "Adagrad": {}, "Adadelta": {}, "ASGD": {}, "Adafactor": {}, "Muon": {},
}  # fmt: skip


@pytest.mark.parametrize(("source", "target"), WAYS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_on(name, source, target):
    lib, other = (both()[library][0] for library in (source, target))
    parameter = lib.nn.Parameter(lib.ones(2, 2))
    optimizer = getattr(lib.optim, name)([parameter], lr=0.1, **OPTIMIZERS[name])

    def step(parameter, optimizer):
        optimizer.zero_grad()
        (parameter * parameter * parameter).sum().backward()
        optimizer.step()

    step(parameter, optimizer)
    found, again = moved(source, target, [parameter, optimizer])
    assert type(again) is getattr(other.optim, name)
    assert again.param_groups[0]["params"][0] is found
    for _ in range(2):
        step(parameter, optimizer)
        step(found, again)
    np.testing.assert_allclose(found.detach().numpy(), parameter.detach().numpy(), rtol=1e-4, atol=1e-6)


# --- random projects ---------------------------------------------------------------------------------------------

NAMES = ["rp", "rp.a", "rp.b", "rp.sub", "rp.sub.c", "rp.sub.d", "rp_other"]


def source(rng, name):
    """A module whose functions import others, in all ways that there are."""
    lines = []
    for k in range(rng.randrange(4)):
        target = rng.choice([*NAMES, "json", "os.path", "sys", "not_there"])
        outer, _, last = target.rpartition(".")
        kinds = [
            f"import {target}",
            f"__import__({target!r})",
            f"from {target} import __name__",
            f"import {target} as x",
        ]
        if outer:
            kinds += [f"from {outer} import {last}", f"from {outer} import {last} as x, __name__"]
        if name.startswith("rp.sub") and target.startswith("rp.sub."):
            kinds.append(f"from . import {last}")
        lines.append(f"def f{k}():\n    {rng.choice(kinds)}\n")
    return "\n".join(lines)


def plan(rng):
    """What is done with an exporter, by names of methods and arguments."""
    patterns = ["rp.**", "rp", "rp.*", "rp_*", "rp.sub.**", "rp.sub.c", "**", "sys", "zzz"]
    steps = []
    for _ in range(rng.randrange(2, 6)):
        method = rng.choice(["intern", "intern", "extern", "mock", "deny"])
        options = {"exclude": rng.choice(patterns)} if rng.random() < 0.2 else {}
        if method != "deny" and rng.random() < 0.1:
            options["allow_empty"] = False
        steps.append((method, (rng.choice(patterns),), options))
    for k in range(rng.randrange(1, 4)):
        steps.append(
            rng.choice(
                [
                    ("save_module", (rng.choice(NAMES),), {}),
                    ("add_dependency", (rng.choice([*NAMES, "json"]),), {}),
                    ("save_source_string", (f"made{k}", source(rng, "made")), {}),
                    (
                        "save_pickle",
                        ("res", f"{k}.pkl", [1, len, set()]),
                        {"dependencies": rng.random() < 0.7},
                    ),
                ]
            )
        )
    return steps


def outcome(package, steps):
    """Everything that an exporter says about a plan."""
    log = []
    file = io.BytesIO()
    try:
        with package.PackageExporter(
            file
        ) as e:  # with debug=True PyTorch never ends where imports are circular
            for kind in ("mock", "intern", "extern"):
                getattr(e, f"register_{kind}_hook")(lambda _, name, kind=kind: log.append((kind, name)))
            for method, arguments, options in steps:
                getattr(e, method)(*arguments, **options)
            log.append([getattr(e, f"{kind}ed_modules")() for kind in ("intern", "extern", "mock")])
            log.append((e.denied_modules(), e.dependency_graph_string(), {n: e.get_rdeps(n) for n in NAMES}))
    except Exception as error:
        if "has NO_ACTION error but action is set" in str(error):
            pytest.skip("PyTorch fails for a module that no pattern matches at first")
        if type(error).__name__ not in ("PackagingError", "EmptyMatchError", "ModuleNotFoundError"):
            raise
        kept = [
            line for line in str(error).splitlines() if not line.strip().startswith(("Note:", "Set debug"))
        ]
        return log, type(error).__name__, kept
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    mocked = {name: b"" if b"MockedObject" in content else content for name, content in parts.items()}
    return log, {name: content for name, content in mocked.items() if not name.endswith("serialization_id")}


@pytest.mark.parametrize("seed", range(40))
def test_random_projects(seed, tmp_path, monkeypatch):
    torch_package = both()["torch"][1]
    rng = random.Random(seed)
    for name in NAMES:
        inner = any(other.startswith(name + ".") for other in NAMES)
        path = tmp_path / (name.replace(".", "/") + ("/__init__.py" if inner else ".py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source(rng, name))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    steps = plan(rng)
    try:
        assert outcome(fg_package, steps) == outcome(torch_package, steps)
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] in ("rp", "rp_other")]:
            del sys.modules[name]
