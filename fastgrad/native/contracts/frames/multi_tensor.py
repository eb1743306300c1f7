"""One kernel over each of a list of groups of tensors: steps of optimizers, norms, clipping."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOAT64
from fastgrad.native.contracts.frame import UPDATE, Field, Frame, number, reads, scratch, size, updates
from fastgrad.native.contracts.split import Split

# What every frame of this sort begins with: the number of elements, the dtype of the tensor that is one number of any
# floating dtype (the others have the kernel's), whether a launch over no elements has counted the step, the addresses
# of the group's tensors, 0 for one that is absent. Behind these stand the settings of the call.
_HEAD = {"n": size(), "single": number(), "counted": number()}
GROUP = Frame("group", **_HEAD, tensors=updates("n", count=22))


JOINED = Frame(
    "joined",
    n=size(), first=number(), kernel=number(), table=number(), pitch=number(), count=size(), n_words=size(),
    moves=number(), own_n=number(), own_counted=number(), splits=(Split("n", {"first": 1}),),
)  # fmt: skip
"""Many such frames: elements from `first` on, of all of them together, for the kernel at an address. The `count` frames
begin `pitch` bytes from each other; `moves` has a bit for each word that is an address with an element for each step;
`own_n` and `own_counted` are places in these frames. See Note [Joined launches] in `memory.joined`."""
COUNTS, SUMS, NOTES = 1, 2, 4
"""In place of the bits of words, as the first ones are no addresses: the kernel counts its steps; it adds up what it
finds in all tensors, so that launches on the host are not joined, and has room for that behind its settings; it notes
what it finds in any tensor in one number, where whoever writes writes the same."""


def joins(frame: Frame) -> int:
    """What lets launches with frames of this sort be joined; 0 where they may not."""
    if "parts" in frame.declared:
        return SUMS
    [split] = frame.splits
    moved = sum(1 << frame.place(name) for name in split.moves)
    if split.where:
        return moved | COUNTS
    notes = any(f.role == UPDATE and name not in split.moves for name, f in frame.declared.items())
    return moved | (NOTES if notes else 0)


def _group(name: str, tensors: str, settings: str = "", *, sums: bool = False) -> Frame:
    """The frame of one kernel.

    Parameters
    ----------
    name : str
    tensors : str
        Names of a group's tensors; ``!`` behind a name: the kernel writes it; ``.``: it is a single number; ``+``: a
        single number that goes on by one step, unless that has happened. All others have sizes and dtype of the first.
    settings : str
        Names of the numbers that all groups of a call share: floats, but for ``flags``.
    sums : bool
        Whether groups add to one number: devices that divide the work of a call get room for what they find.
    """
    fields: dict[str, Field] = {}
    for word in tensors.split():
        role = updates if "!" in word or "+" in word else reads
        fields[word.rstrip("!.+")] = role() if "." in word or "+" in word else role("n")
    moves = {field: () for field, declared in fields.items() if declared.extent}
    if settings:
        singles = {name: number(element=None if name == "flags" else FLOAT64) for name in settings.split()}
        fields["settings"] = number(settings)._replace(singles=singles)
    where = {"counted": 1} if "+" in tensors else {}  # each part would count
    if sums:
        fields["parts"] = scratch()
    splits = () if sums else (Split("n", moves, where=where),)
    return Frame(name, **_HEAD, **fields, splits=splits)


SGD = _group("sgd", "param! grad momentum_buffer!", "lr momentum dampening weight_decay flags")
ADAM = _group(
    "adam", "param! grad exp_avg! exp_avg_sq! max_exp_avg_sq! step+", "lr beta1 beta2 eps weight_decay flags"
)
RMSPROP = _group(
    "rmsprop", "param! grad square_avg! momentum_buffer! grad_avg! step+",
    "lr alpha eps weight_decay momentum flags",
)  # fmt: skip
ADAGRAD = _group("adagrad", "param! grad sum! step+", "lr lr_decay eps weight_decay flags")
ADADELTA = _group("adadelta", "param! grad square_avg! acc_delta! step+", "lr rho eps weight_decay flags")
ADAMAX = _group("adamax", "param! grad exp_avg! exp_inf! step+", "lr beta1 beta2 eps weight_decay flags")
NADAM = _group(
    "nadam", "param! grad exp_avg! exp_avg_sq! mu_product+ step+",
    "lr beta1 beta2 eps weight_decay momentum_decay flags",
)  # fmt: skip
RADAM = _group("radam", "param! grad exp_avg! exp_avg_sq! step+", "lr beta1 beta2 eps weight_decay flags")
RPROP = _group(
    "rprop", "param! grad prev! step_size! step+", "etaminus etaplus step_size_min step_size_max flags"
)
ASGD = _group("asgd", "param! grad ax! eta. mu. step.", "lambd weight_decay flags")
ASGD_RATE = _group("asgd_rate", "eta! mu! step+", "lr lambd alpha t0")
STEPS = (SGD, ADAM, RMSPROP, ADAGRAD, ADADELTA, ADAMAX, NADAM, RADAM, RPROP, ASGD, ASGD_RATE)
NORM_PART = _group("norm_part", "tensor total!.", "order", sums=True)
SCALE = _group("scale", "tensor! factor.")
UNSCALE = _group("unscale", "tensor! found_inf!.", "inverse")
CLIP = _group("clip", "tensor!", "bound")
