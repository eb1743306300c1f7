"""Classes that libraries derive from and ask for, by the modules where PyTorch has them."""

from __future__ import annotations

import importlib

import pytest
from alias_running import ALIAS, output, under_alias

from fastgrad.as_torch import locations, proxies

BASES = """
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.loss import _Loss, _WeightedLoss
from torch.nn.modules.padding import _CircularPadNd, _ReflectionPadNd, _ReplicationPadNd
from torch.nn.modules.pooling import _MaxPoolNd
bases = [v for k, v in globals().items() if k.startswith("_") and isinstance(v, type) and issubclass(v, nn.Module)]
for name in sorted(dir(nn)):
    kind = getattr(nn, name)
    found = [base.__name__ for base in bases if isinstance(kind, type) and issubclass(kind, base)]
    if found:
        print(name, len(found))
class Mine(_Loss):
    def forward(self, x): return getattr(x, self.reduction)()
print(Mine(None, None, "sum")(torch.ones(2)), Mine().reduction, _WeightedLoss(torch.ones(2)).state_dict())
"""


@pytest.mark.parity
def test_bases_of_layers_are_those_of_the_same_layers(tmp_path):
    (tmp_path / "bases.py").write_text(BASES)
    printed = output("-P", tmp_path / "bases.py")
    assert len(printed.splitlines()) > 40
    assert output(*ALIAS, tmp_path / "bases.py") == printed


def test_classes_that_modules_have_from_packages_around_them():
    under_alias("""
import torch
from torch.optim.lr_scheduler import Optimizer
from torch.utils.data.dataloader import Dataset, Sampler
from torch.distributions.normal import Tensor
assert Optimizer is torch.optim.Optimizer and Dataset is torch.utils.data.Dataset and Tensor is torch.Tensor
assert isinstance(torch.utils.data.SequentialSampler([1]), Sampler)
assert torch.xpu.device is not torch.device
assert not torch._C._are_functorch_transforms_active()
seen = []
torch.vmap(lambda x: seen.append(torch._C._are_functorch_transforms_active()) or x)(torch.ones(2))
assert seen == [True]
""")


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_they_are_the_same_class_in_pytorch():
    torch = pytest.importorskip("torch")
    count = 0
    for path, names in locations.known().classes.items():
        if not path or not locations.answered(path):
            continue
        there = importlib.import_module(f"torch.{path}")
        for name in names:
            if any(hasattr(place, name) for place in locations.places(path)):
                continue
            if proxies._of_parents(path, name) is None:
                continue
            parts = path.split(".")
            around = [importlib.import_module(".".join(["torch", *parts[:k]])) for k in range(len(parts))]
            nearest = next(
                module for module in reversed(around) if isinstance(getattr(module, name, None), type)
            )
            assert getattr(there, name) is getattr(nearest, name), (path, name)
            count += 1
    assert count > 100
    assert torch is not None
