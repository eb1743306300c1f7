"""The table of the own tests of libraries shows what was recorded."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_what_was_recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import client_suites

    found = client_suites.recorded()
    assert set(found) == set(client_suites.SUITES)
    page = (ROOT / "docs" / "porting.md").read_text("utf-8")
    assert client_suites.BEGIN + client_suites.table(found) + client_suites.END in page
