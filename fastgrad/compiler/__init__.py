"""Compiled steps: functions whose calls are recorded once and then replayed by compiled code.

`fastgrad.compile` is the way in; docs/compile.md says when it pays.
"""

from __future__ import annotations
