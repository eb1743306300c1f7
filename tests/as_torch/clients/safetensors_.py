"""Files of tensors, read whole and in parts."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, save, save_file

path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
save_file(
    {"a": torch.arange(6.0).view(2, 3), "b": torch.arange(3), "c": torch.ones(2, dtype=torch.bfloat16)}, path
)
print(sorted(load_file(path).items()))
with safe_open(path, framework="pt") as file:
    print(sorted(file.keys()), file.get_tensor("a"), file.get_slice("a")[:1, 1:])
print(load(save({"x": torch.tensor([1.0, 2.0])})))
