"""Where the plans of passes are kept: in memory of their own, found by the hash of their keys."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import c_free, native, native_once, pass_plan, runtime, words
from fastgrad.native.contracts.pass_plans import (
    MAX_PLAN_BYTES,
    MAX_PLANS,
    N_FACTS,
    PLAN_BUCKETS,
    PLAN_GUESSES,
)


@native
def let_go(address):
    """A pass does not hold a plan any more."""
    p = pass_plan(address)
    p.users -= 1
    if p.users == 0 and p.doomed != 0:
        c_free(address)


@native_once
def forget_plans():
    """Forget all plans; those that passes hold go with the passes."""
    rt = runtime()
    for k in range(PLAN_BUCKETS):
        address = rt.pass_plans[k]
        rt.pass_plans[k] = 0
        while address != 0:
            following = pass_plan(address).next
            pass_plan(address).doomed = 1
            if pass_plan(address).users == 0:
                c_free(address)
            address = following
    for k in range(PLAN_GUESSES):
        rt.plan_guesses[k] = 0
    rt.n_pass_plans = 0
    rt.pass_plan_bytes = 0


@native
def keep_plan(address):
    """Put a new plan where it is found."""
    rt = runtime()
    p = pass_plan(address)
    if rt.n_pass_plans >= MAX_PLANS or rt.pass_plan_bytes + p.bytes > MAX_PLAN_BYTES:
        forget_plans()
    bucket = p.hash & (PLAN_BUCKETS - 1)
    p.next = rt.pass_plans[bucket]
    rt.pass_plans[bucket] = address
    rt.n_pass_plans += 1
    rt.pass_plan_bytes += p.bytes


@native
def plan_facts(k, out):
    """What is known of the k-th plan; returns the number of words, 0 if there are not so many."""
    for bucket in range(PLAN_BUCKETS):
        address = runtime().pass_plans[bucket]
        while address != 0:
            p = pass_plan(address)
            if k == 0:
                facts = words(out)
                facts[0] = p.n_slots
                facts[1] = p.n_order
                facts[2] = p.hits
                facts[3] = p.reason
                facts[4] = p.place
                facts[5] = p.op
                facts[6] = p.bytes
                facts[7] = p.flags
                return N_FACTS
            k -= 1
            address = p.next
    return 0
