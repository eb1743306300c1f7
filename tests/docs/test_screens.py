"""Pages in a browser, on a desk and on a phone, in light and in dark: ``bash .ci/screens``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
sys.path.insert(0, str(ROOT / "tools"))
screens: ModuleType = importlib.import_module("screens")
sys.path.pop(0)

BAD = """<!doctype html><title>x</title><body style="background:#fff"><p style="color:#aaa">pale</p>
<div style="width:1500px">wide</div><p style="opacity:.3">faint</p>
<svg width="99" height="40"><rect width="99" height="40" fill="#333"/><text y="20" fill="#444">dim</text></svg>
<svg width="99" height="40"><rect width="15" height="40" fill="#eee"/><text x="0" y="20">out</text></svg>
<h1 style="font-size:9px">one</h1><h2 style="font-size:10px">two</h2>
<table style="width:100%"><tr><td style="white-space:pre">{long}<td>text</table>
<script>console.error("a complaint"); throw new Error("an error")</script>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    binary = screens.find()
    if binary is None:
        pytest.skip("there is no Chromium or Chrome")
    with screens.Browser(binary) as found:
        yield found


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go: SCREENS_FOLDER, if somebody wants to see them."""
    folder = Path(os.environ.get("SCREENS_FOLDER", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("view", screens.VIEWS, ids=str)
@pytest.mark.parametrize("name", screens.PAGES)
def test_pages_of_the_site(browser: Any, pictures: Path, name: str, view: Any):
    if not SITE.is_dir():
        pytest.skip("the site is not built: bash .ci/docs")
    picture, wrong = screens.look(browser, SITE / f"{name}.html", view)
    (pictures / f"{name.replace('/', '-')}-{view}.png").write_bytes(picture)
    assert wrong == []


@pytest.mark.parametrize("view", screens.VIEWS, ids=str)
def test_what_notebooks_show(browser: Any, pictures: Path, tmp_path: Path, view: Any):
    from tests.docs.notebook_page import page

    file = tmp_path / "notebook.html"
    file.write_text(page(), encoding="utf-8")
    picture, wrong = screens.look(browser, file, view)
    (pictures / f"notebook-{view}.png").write_bytes(picture)
    assert wrong == []


@pytest.mark.parametrize("view", screens.VIEWS, ids=str)
def test_flaws_are_found(browser: Any, tmp_path: Path, view: Any):
    file = tmp_path / "bad.html"
    file.write_text(BAD.replace("{long}", "long" * 500), encoding="utf-8")
    _, wrong = screens.look(browser, file, view)
    for words in (
        "pixels wide", "<div> reaches", '"pale" has a contrast of 2.32', '"faint" has', '"dim" has a contrast of 1.30',
        "a table of 2 columns", "headings are of sizes 9,10", '"out" is', "a complaint", "an error",
    ):  # fmt: skip
        assert any(words in text for text in wrong), (words, wrong)


def test_an_empty_picture_is_found(browser: Any, tmp_path: Path):
    file = tmp_path / "empty.html"
    file.write_text("<!doctype html><title>x</title>", encoding="utf-8")
    [text] = screens.look(browser, file, screens.VIEWS[0])[1]
    assert text == "only 0.00% of the picture is of another colour than the rest"
