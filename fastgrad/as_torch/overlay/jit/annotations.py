"""Types that modules are annotated with for TorchScript."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035 - names that programs import from here

__all__ = ["Dict", "List", "Optional", "Tuple"]


class BroadcastingListCls:
    """The type of a list of some length, in place of which a single value may be given."""

    def __getitem__(self, types: Any) -> Any:
        return list[types]


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingListCls()
BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingListCls()
BroadcastingList6 = BroadcastingListCls()
