"""Plans of passes: their records, the words of their keys, and why one was made; see `backward.pass_plans`."""

from __future__ import annotations

from fastgrad.native.contracts.limits import MAX_OPS
from fastgrad.native.contracts.record import Part

PASS_PLAN = Part(
    "pass_plan", next=1, users=1, doomed=1, hits=1, hash=1, bytes=1,
    key=1, n_key=1, order=1, ranks=1, n_order=1, needed=1, n_slots=1, flags=1, reason=1, place=1, op=1,
    steps=1,
)  # fmt: skip
"""`users`: how many passes hold it; `doomed`: it was forgotten, and goes with the last of them. `order`: the slots as
they run; `ranks`: the same from the node made last to that made first, with a bit for each that was made together with
the next; `needed`: for each slot whether it has a path to what was asked for. `reason`, `place`, `op`: why it was made,
one of `REASONS`, at which slot, of what op. `steps`: for each place in the order the address of what a plain step
knows, or 0: how many edges, then a `PLAIN_EDGE` for each; see Note [Plain steps] in `backward.plain_steps`."""
PLAIN_EDGE = Part("plain_edge", input=1, op=1, program=1, places=1, slot=1, output_nr=1)
"""A gradient that a node gives: of which input, by which op or program (neither: the node's own gradient), what
it reads, to which slot and output it goes."""

PLAN_BUCKETS, PLAN_GUESSES = 256, 64
MAX_PLANS, MAX_PLAN_BYTES = 1024, 64 << 20
"""When there are more, all are forgotten that no pass holds."""

OP_BITS = (MAX_OPS - 1).bit_length()  # of a word about a node, the lowest ones: its op
TAG_SHIFT = 57
(
    A_PASS, A_ROOT, A_NODE, AN_EDGE, AN_OUTPUT, A_SAVED, A_LEAF, A_FUNCTION, SOME_HOOKS, A_WISH, COLLECTED,
) = range(1, 12)  # fmt: skip
"""What a word of a key is about, in its highest bits."""

FIRST, ORDER, LENGTH = 0, 12, 13
REASONS = {
    FIRST: "no graph began like this one",
    A_PASS: "other flags of the pass",
    A_ROOT: "other roots",
    A_NODE: "another op, or one with other inputs, outputs or kept gradients",
    AN_EDGE: "an edge leads elsewhere",
    AN_OUTPUT: "an output of another dtype, device or number of dimensions",
    A_SAVED: "a saved tensor of another kind, or one that is packed or freed",
    A_LEAF: "a leaf that wants gradients where it did not, or the other way round",
    A_FUNCTION: "another custom function",
    SOME_HOOKS: "another number of hooks",
    A_WISH: "other gradients are asked for",
    COLLECTED: "hooks collected something else",
    ORDER: "nodes were made in another order",
    LENGTH: "the graph ends elsewhere",
}
"""Why a plan was made: where the key parted from that of the last plan whose graph began alike."""
N_FACTS = 8
"""What Python can ask of a plan: numbers of nodes, of those that run, of replays, the reason, its place, the op there,
bytes, flags of the pass."""
