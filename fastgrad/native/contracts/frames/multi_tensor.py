"""One kernel over each of a list of groups of tensors: steps of optimizers, norms, clipping."""

from __future__ import annotations

from fastgrad.native.contracts.frame import Field, Frame, number, reads, size, updates
from fastgrad.native.contracts.split import Split

# What every frame of this sort begins with: the number of elements, the dtype of the tensor that is one number of any
# floating dtype (the others have the kernel's), the addresses of the group's tensors, 0 for one that is absent. Behind
# these stand the settings of the call.
GROUP = Frame("group", n=size(), single=number(), tensors=updates("n", count=22))


def _group(name: str, tensors: str, settings: str = "") -> Frame:
    """The frame of one kernel.

    Parameters
    ----------
    name : str
    tensors : str
        Names of a group's tensors; ``!`` behind a name: the kernel writes it; ``.``: it is a single number. All others
        have sizes and dtype of the first.
    settings : str
        Names of the numbers that all groups of a call share.
    """
    fields: dict[str, Field] = {}
    for word in tensors.split():
        role = updates if "!" in word else reads
        fields[word.rstrip("!.")] = role() if "." in word else role("n")
    moves = {field: () for field, declared in fields.items() if declared.extent}
    if settings:
        fields["settings"] = number(settings)
    one_piece = "!." in tensors  # each part would change the number
    return Frame(name, n=size(), single=number(), **fields, splits=() if one_piece else (Split("n", moves),))


SGD = _group("sgd", "param! grad momentum_buffer!", "lr momentum dampening weight_decay flags")
ADAM = _group(
    "adam", "param! grad exp_avg! exp_avg_sq! max_exp_avg_sq! step!.", "lr beta1 beta2 eps weight_decay flags"
)
RMSPROP = _group(
    "rmsprop", "param! grad square_avg! momentum_buffer! grad_avg! step!.",
    "lr alpha eps weight_decay momentum flags",
)  # fmt: skip
ADAGRAD = _group("adagrad", "param! grad sum! step!.", "lr lr_decay eps weight_decay flags")
NORM_PART = _group("norm_part", "tensor total!.", "order")
SCALE = _group("scale", "tensor! factor.")
CLIP = _group("clip", "tensor!", "bound")
