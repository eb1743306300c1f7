"""``import torch`` under the alias: what is found, what is honestly missing, what names read."""

from __future__ import annotations

import pytest
from alias_running import ALIAS, output, started, under_alias


def test_imports_are_answered_by_fastgrad():
    under_alias("""
import sys
import torch, fastgrad
import torch.nn as nn
import torch.nn.functional as F
from torch import optim, Tensor
from torch.nn import Linear
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import InstanceNorm2d
from torch.optim.lr_scheduler import StepLR, _LRScheduler
from torch.utils.data.dataloader import DataLoader, default_collate
from torch.autograd.grad_mode import no_grad
from torch.cuda.amp.grad_scaler import GradScaler
import torch.utils.data as data, torch.optim.adamw
assert torch.nn is nn and sys.modules["torch.nn"] is nn and nn.functional is F
assert Linear is fastgrad.nn.Linear and Tensor is fastgrad.Tensor and nn.Linear is Linear
assert torch.functional.einsum is fastgrad.einsum and no_grad is fastgrad.no_grad
assert InstanceNorm2d is nn.InstanceNorm2d and torch.optim.adamw.AdamW is optim.AdamW
names = {}
exec("from torch.nn import *", names)
assert names["Linear"] is Linear
assert "relu" in dir(F) and "Linear" in vars(nn) and vars(nn)["Linear"] is Linear
assert torch.__file__ == fastgrad.__file__ and torch.__doc__ and "fastgrad" in repr(torch)
""")


def test_names_read_as_pytorchs():
    under_alias("""
import torch, torch.nn as nn
assert str(torch.float32) == "torch.float32" and repr(torch.strided) == "torch.strided"
assert torch.ones(2).type() == "torch.FloatTensor" and torch.ones(2).type("torch.DoubleTensor").dtype == torch.double
assert repr(torch.ones(2, 3).shape) == "torch.Size([2, 3])" and str(torch.channels_last) == "torch.channels_last"
assert repr(torch.zeros(1, dtype=torch.float64)) == "tensor([0.], dtype=torch.float64)"
assert str(type(torch.ones(1))) == "<class 'torch.Tensor'>"
assert torch.Tensor.__module__ == torch.device.__module__ == torch.Size.__module__ == "torch"
assert nn.Linear.__module__ == "torch.nn.modules.linear" and nn.Parameter.__module__ == "torch.nn.parameter"
assert torch.optim.SGD.__module__ == "torch.optim.sgd" and torch.LongTensor.__module__ == "torch"
assert torch.typename(torch.ones(1)) == "torch.FloatTensor" and nn.__name__ == "torch.nn"
""")


def test_results_with_names_read_as_pytorchs():
    under_alias("""
import torch, pickle, fastgrad
found = torch.tensor([3.0, 1.0]).max(0)
assert repr(found) == "torch.return_types.max(\\nvalues=tensor(3.),\\nindices=tensor(0))", repr(found)
assert str(type(found)) == "<class 'torch.return_types.max'>" and type(found) is torch.return_types.max
assert type(pickle.loads(pickle.dumps(found))) is fastgrad.return_types.max
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
leaves, spec = tree_flatten([found])
assert leaves == list(found) and type(tree_unflatten(leaves, spec)[0]) is torch.return_types.max
assert tree_map(lambda t: t + 1, found).values == 4
""")


def test_sets_and_deletes_reach_the_library():
    under_alias("""
import torch, fastgrad, torch.nn as nn
relu = torch.relu
torch.relu = abs
assert fastgrad.relu is abs and torch.relu is abs
torch.relu = relu
fastgrad.sigmoid_of_mine = 3
assert torch.sigmoid_of_mine == 3
del torch.sigmoid_of_mine
assert not hasattr(fastgrad, "sigmoid_of_mine")
try:
    del torch.sigmoid_of_mine
except AttributeError:
    pass
else:
    raise AssertionError
class Mine(nn.Linear): pass
nn.Linear, before = Mine, nn.Linear
assert fastgrad.nn.Linear is Mine
nn.Linear = before
torch.jit.script, before = abs, torch.jit.script  # of a module that fastgrad itself lacks
assert torch.jit.script is abs
torch.jit.script = before
functional, nn.functional = nn.functional, 5
assert fastgrad.nn.functional == 5
nn.functional = functional
assert fastgrad.nn.functional.__name__ == "fastgrad.nn.functional" and nn.functional is functional
""")


def test_what_is_missing_is_missing_honestly():
    under_alias("""
import importlib.util, sys, torch, torch.nn as nn
assert not hasattr(torch, "sparse_coo_tensor") and getattr(torch, "sparse", None) is None
assert not hasattr(nn, "no_such") and not hasattr(torch, "native") and not hasattr(torch, "kernels")
for name in ("torch.sparse", "torch.export", "torch.native", "torch.no_such", "torch.nn.modules.instances"):
    assert importlib.util.find_spec(name) is None
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert name in str(error), error
    else:
        raise AssertionError(name)
    assert name not in sys.modules
def error_of(program, kind):
    try:
        exec(program, {"torch": torch, "nn": nn})
    except kind as error:
        return str(error)
    raise AssertionError(program)
assert "PyTorch has torch.sparse_coo_tensor, which fastgrad does not have" in error_of(
    "torch.sparse_coo_tensor([1])", AttributeError)
assert "PyTorch has torch.sparse_coo_tensor" in error_of("from torch import sparse_coo_tensor", ImportError)
assert "torch.randint" in error_of("torch.randints", AttributeError)
assert "PyTorch has torch.distributed.rpc" in error_of("import torch.distributed.rpc", ImportError)
missing = torch.optim.SparseAdam
assert isinstance(missing, type) and torch.optim.SparseAdam is missing and not isinstance(torch.ones(1), missing)
class Sub(missing):
    def forward(self, x): return x
assert "torch.optim.SparseAdam" in error_of("torch.optim.SparseAdam(3)", NotImplementedError)
try:
    Sub(3)
except NotImplementedError as error:
    assert "torch.optim.SparseAdam" in str(error)
else:
    raise AssertionError
assert "no_such" in error_of("torch.optim.SparseAdam.no_such", AttributeError)
class Both(torch.jit.ScriptModule, nn.Module): pass
try:
    raise ValueError
except torch.cuda.CudaError:
    raise AssertionError
except ValueError:
    pass
assert issubclass(torch.jit.Error, Exception)
import importlib.util
assert torch.distributed.is_available() is (importlib.util.find_spec("mpi4py") is not None)
assert torch.distributed.is_initialized() is False and not hasattr(torch.distributed, "split_group")
""")


def test_the_version_is_found_by_all_who_ask():
    under_alias("""
import importlib.metadata, torch
assert torch.__version__ >= "2.0" and torch.__version__ > (1, 8) and torch.__version__ < "3"
assert isinstance(torch.__version__, str) and torch.__version__.split(".")[:2] == ["2", "13"]
assert torch.version.__version__ == torch.__version__ == importlib.metadata.version("torch")
assert torch.torch_version.TorchVersion("1.2") < torch.__version__
""")


def test_it_has_to_come_before_the_real_one(tmp_path):
    (tmp_path / "torch.py").write_text("")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import torch, fastgrad; fastgrad.install_as_torch()"
    )
    done = started("-c", program, tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: install_as_torch(): 'torch' is loaded already" in done.stderr
    twice = "import fastgrad; fastgrad.install_as_torch(); import torch as a; fastgrad.install_as_torch()"
    assert output("-c", f"{twice}; import torch as b; print(a is b)") == "True\n"


def test_the_library_itself_does_not_install_it():
    assert output("-c", "import fastgrad.as_torch, sys; print('torch' in sys.modules, fastgrad.float32)") == (
        "False fastgrad.float32\n"
    )


def test_files_are_read_with_the_alias_and_without(tmp_path):
    made = """
import {0}
state = dict(w={0}.ones(2), s={0}.ones(2, 3).shape, d={0}.device("cpu"), t={0}.float64, p={0}.nn.Parameter({0}.ones(1)))
{0}.save(state, "{1}")
"""
    read = "import {0}; s = {0}.load('{1}'); print(list(s), s['w'].tolist(), type(s['p']) is {0}.nn.Parameter, s['d'])"
    there, here = tmp_path / "torch.pt", tmp_path / "fastgrad.pt"
    under_alias(made.format("torch", there))
    output("-c", made.format("fastgrad", here))
    expected = "['w', 's', 'd', 't', 'p'] [1.0, 1.0] True cpu\n"
    for file in (there, here):
        assert under_alias(read.format("torch", file)) == expected
        assert output("-c", read.format("fastgrad", file)) == expected


def test_packages_are_the_same_with_the_alias_and_without(tmp_path):
    made = """
import {0}
from {0}.package import PackageExporter
{0}.manual_seed(0)
held = [
    {0}.ones(2), {0}.nn.Parameter({0}.ones(1)), {0}.nn.Linear(2, 2), {0}.nn.MultiheadAttention(4, 2), {0}.strided,
    {0}.channels_last, {0}.float16, {0}.device("cpu"), {0}.Size([1]), {0}.optim.SGD, {0}.nn.functional.relu,
]
with PackageExporter("{1}") as exporter:
    exporter.save_pickle("held", "all.pkl", held)
"""
    read = """
import {0}
from {0}.package import PackageImporter
x, _, linear, _, *known, sgd, relu = PackageImporter("{1}").load_pickle("held", "all.pkl")
print(x.tolist(), type(linear) is {0}.nn.Linear, known[:3] == [{0}.strided, {0}.channels_last, {0}.float16])
print(sgd is {0}.optim.SGD, relu is {0}.nn.functional.relu)
"""
    there, here = tmp_path / "torch.pt", tmp_path / "fastgrad.pt"
    under_alias(made.format("torch", there))
    output("-c", made.format("fastgrad", here))
    assert there.read_bytes() == here.read_bytes()
    assert under_alias(read.format("torch", here)) == "[1.0, 1.0] True True\nTrue True\n"


def test_pickles_name_pytorchs_modules():
    under_alias("""
import copy, pickle, torch, torch.nn as nn
model = nn.Sequential(nn.Linear(2, 2), nn.InstanceNorm1d(2), nn.PixelShuffle(1))
data = pickle.dumps(model)
assert b"torch.nn.modules.linear" in data and b"fastgrad.nn.modules" not in data, data
again = pickle.loads(data)
assert torch.equal(again[0].weight, model[0].weight)
assert pickle.loads(pickle.dumps(torch.optim)) is torch.optim and copy.copy(torch) is torch
assert pickle.loads(pickle.dumps(torch.float16)) is torch.float16
""")


def test_ops_of_programs_are_found_by_name():
    under_alias("""
import torch, torch.ops
@torch.library.custom_op("mine::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x
assert torch.ops.mine.square(torch.full((2,), 3.0)).tolist() == [9, 9]
assert not hasattr(torch.ops, "mine2") and not hasattr(torch.ops, "registry") and torch.ops.aten.slice
""")


def test_compiled_steps_know_the_proxies():
    under_alias("""
import torch, torch.nn.functional as F
@torch.compile(fullgraph=True)
def f(x):
    return F.relu(torch.sin(x)) * torch.pi
x = torch.linspace(-1, 1, 5)
for _ in range(3):
    assert torch.equal(f(x), F.relu(torch.sin(x)) * torch.pi)
""")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "usage:"),
        (("-m",), "usage:"),
        (("--no-such",), "usage:"),
        (("--check",), "usage:"),
        (("no_such_script.py",), "can't open file 'no_such_script.py'"),
    ],
)
def test_wrong_usage(arguments, says):
    done = started(*ALIAS, *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "--check" in output(*ALIAS, "--help")


def test_modules_can_be_looked_through():
    under_alias("""
from torch import *
assert relu.__name__ == "relu" and "debug" not in globals()
import copy, importlib, inspect, typing, torch, torch.nn as nn
for module in (torch, nn, torch.optim, torch.jit, torch.utils.data):
    assert not [name for name in dir(module) if not hasattr(module, name)]
    assert set(dir(module)) == set(vars(module)) and not {"native", "kernels", "debug"} & set(dir(module))
assert dict(inspect.getmembers(torch.optim, inspect.isclass))["SGD"] is torch.optim.SGD
assert "class Linear" in inspect.getsource(nn.Linear)
assert inspect.getmodule(nn.Linear).__name__ == "torch.nn.modules.linear"
assert importlib.reload(nn) is nn and copy.deepcopy(torch) is torch and torch.nn is nn
assert nn.__spec__.name == "torch.nn" and nn.__package__ == "torch.nn" and isinstance(nn, type(inspect))
class Annotated:
    x: "torch.Tensor"
assert typing.get_type_hints(Annotated) == {"x": torch.Tensor}
""")


def test_what_needs_a_package_is_absent_without_it():
    under_alias("""
import sys, importlib.util
sys.modules["tensorboard"] = None
import torch
assert not hasattr(torch.utils, "tensorboard")
assert importlib.util.find_spec("torch.utils.tensorboard") is None
try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError as error:
    assert "pip install" in str(error), error
else:
    raise AssertionError
""")


def test_a_subclass_of_tensor_imports_no_more_than_it_needs():
    under_alias("""
import sys, torch, torch.nn
class Sub(torch.Tensor): pass
assert type(torch.exp(torch.ones(1).as_subclass(Sub))) is Sub
assert not {"fastgrad.distributed", "fastgrad.distributions", "fastgrad.optim"} & set(sys.modules)
""")


def test_notebooks_show_modules_and_tensors_under_the_alias():
    under_alias("""
import torch
assert "<b>Tensor</b>" in torch.ones(2)._repr_html_()
assert "Linear(" in torch.nn.Linear(2, 2)._repr_html_()
""")


def test_lists_of_imports_by_a_call_may_hold_anything():
    program = """
assert __import__("torch.nn.functional", fromlist=["dummy"]).relu
assert __import__("torch", fromlist=["nothing", "nn"]).nn.Linear
for statement in ("from torch import nothing", "from torch.nn import nothing", "import torch.nothing"):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
"""
    said = under_alias(program).splitlines()
    assert [line.partition(",")[0] for line in said] == [
        "No module named 'torch.nothing'", "No module named 'torch.nn.nothing'", "No module named 'torch.nothing'",
    ]  # fmt: skip
