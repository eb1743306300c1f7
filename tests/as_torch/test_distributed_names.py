"""What libraries import of ``torch.distributed`` when they start, whether they use several processes or not."""

from __future__ import annotations

from alias_running import ALIAS, output

PROGRAM = """
import torch
from torch.distributed._composable.fsdp import FSDPModule
from torch.distributed._tensor.experimental import implicit_replication
from torch.distributed.tensor import DTensor
from torch.utils.data.dataloader import _collate_fn_t

print(isinstance(torch.zeros(1), DTensor), isinstance(torch.nn.Linear(1, 1), FSDPModule))
print(torch.distributed.fsdp.FSDPModule is not None, type(torch.zeros(1)) is torch.distributed.tensor.DTensor)
for refused in (implicit_replication, DTensor, torch.distributed.fsdp.FSDPModule):
    try:
        refused()
    except NotImplementedError as error:
        print(error)
from torch.nn.modules.module import _IncompatibleKeys
print(_IncompatibleKeys([], ['a']).unexpected_keys)
print(hasattr(torch.distributed.fsdp, "register_fsdp_forward_method"))
"""


def test_what_is_missing_is_a_class_and_refuses_when_it_is_made():
    first, second, *errors, keys, last = output(*ALIAS, "-c", PROGRAM).splitlines()
    assert (first, second, keys, last) == ("False False", "True False", "['a']", "False")
    assert [error.partition(",")[0] for error in errors] == [
        "PyTorch has torch.distributed.tensor.experimental.implicit_replication",
        "PyTorch has torch.distributed.tensor.DTensor",
        "PyTorch has torch.distributed.fsdp.FSDPModule",
    ]
