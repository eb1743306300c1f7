"""The documentation site: its contents, its links, the pages of the reference."""

from __future__ import annotations

import importlib.util
import inspect
import re
import typing
from pathlib import Path
from types import ModuleType

import pytest

import fastgrad as fg

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def reference() -> ModuleType:
    pytest.importorskip("sphinx")
    return module(DOCS / "extensions" / "reference.py")


# --- contents and links ------------------------------------------------------------------------------------------


def test_every_page_stands_in_the_contents_once():
    pytest.importorskip("sphinx")
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    contents = module(DOCS / "extensions" / "contents.py")
    text = contents.expanded((DOCS / "index.md").read_text(), pages)
    lines = [line for line in text.splitlines() if line in pages]
    assert sorted(lines) == sorted(pages)


def test_patterns_stand_for_pages_that_no_line_names():
    pytest.importorskip("sphinx")
    expanded = module(DOCS / "extensions" / "contents.py").expanded
    pages = {"first", "second", "second_more", "index"}
    assert expanded("a * b\nfirst\nsecond*\nthird*\n*\n", pages) == "a * b\nfirst\nsecond\nsecond_more\n"
    assert expanded("*", set()) == "\n"


def test_the_readme_leads_to_pages_that_are_there():
    for link in re.findall(
        r"\]\(((?:docs|examples|CONTRIBUTING|LICENSE)[^)]*)\)", (ROOT / "README.md").read_text()
    ):
        path, _, place = link.partition("#")
        assert (ROOT / path).exists(), link
        if place:
            headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
            assert place in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}, link


def test_links_that_lead_nowhere_are_found(tmp_path, capsys):
    links = module(ROOT / "tools" / "site_links.py")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "page.html").write_text('<h2 id="there"></h2><a href="../index.html#top">back</a>')
    (tmp_path / "index.html").write_text(
        '<a id="top"></a><a href="more/page.html#there"></a><a href="https://example.org/x"></a><a href="#top">'
        '</a><img src="missing.png"><a href="more/page.html#nowhere"></a><a href="mailto:a@b.c"></a>'
    )
    assert links.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "index.html: there is no file missing.png",
        "index.html: there is no such place: more/page.html#nowhere",
    ]
    assert links.main([str(tmp_path / "more")]) == links.main([]) == 2


def test_the_gallery_knows_its_pictures(capsys):
    gallery = module(ROOT / "tools" / "gallery.py")
    shown = re.findall(r"\(pictures/(\w+)\.png\)", (DOCS / "gallery.md").read_text())
    assert sorted(shown) == sorted(gallery.PROGRAMS)
    assert all((DOCS / "pictures" / f"{name}.png").is_file() for name in shown)
    assert all((ROOT / "examples" / command[0]).is_file() for command in gallery.PROGRAMS.values())
    assert gallery.main(["no_such_picture"]) == 2
    assert "no_such_picture" in capsys.readouterr().err


# --- the reference -----------------------------------------------------------------------------------------------


def test_every_public_name_has_an_entry(reference):
    texts = dict(reference.pages())
    for package in reference.public_modules():
        entries = "\n".join(
            text for text in texts.values() if f".. py:currentmodule:: {package.__name__}\n" in text
        )
        found = set(re.findall(r"^\.\. py:\w+:: (\w+)", entries, re.MULTILINE))
        names = reference.public_names(package)
        missing = [n for n in names if not isinstance(getattr(package, n), ModuleType) and n not in found]
        assert not missing, f"{package.__name__}: {missing}"
    listed = re.findall(r"^:doc:`(\S+)`$", texts["index"], re.MULTILINE)
    assert sorted(listed) == sorted(set(texts) - {"index"})


def test_public_modules_are_those_that_names_lead_to(reference):
    found = [m.__name__ for m in reference.public_modules()]
    assert len(found) == len(set(found))
    assert {"fastgrad", "fastgrad.nn.functional", "fastgrad.optim.lr_scheduler", "fastgrad.debug"} <= set(
        found
    )
    assert not {"fastgrad.native", "fastgrad.kernels", "fastgrad.ops"} & set(found)


def test_functions_stand_on_pages_of_their_modules(reference):
    found = {name: reference.topic(fg, name) for name in reference.public_names(fg)}
    assert {"conv2d", "lstm_cell"} <= {name for name, title in found.items() if title == "Networks"}
    assert found["cumprod"] == "Reductions and statistics"
    # Modules elsewhere have names of the same kind.
    assert found["summary"] is found["get_num_threads"] is None
    homes = {
        (getattr(inspect.unwrap(getattr(fg, name)), "__module__", None) or "").removeprefix(
            "fastgrad.functions."
        )
        for name in found
    }
    assert set(reference.TOPIC_OF) <= homes


def test_attributes_that_share_a_line_have_one_each(reference):
    doc = inspect.cleandoc("""Sizes.

    Parameters
    ----------
    a, b : int

    Attributes
    ----------
    width, height : float
        In pixels,
        not in inches.
    name : str

    Notes
    -----
    one, two : three
    """)
    apart = reference.attributes_apart(doc)
    described = "float\n    In pixels,\n    not in inches.\n"
    assert apart == doc.replace(f"width, height : {described}", f"width : {described}height : {described}")
    assert reference.attributes_apart("Nothing.") == "Nothing."
    lines = reference.described(fg.viz.Picture, "class")
    assert {":ivar width: In pixels.", ":ivar height: In pixels."} <= set(lines)


def test_signatures_have_types(reference):
    assert reference.signatures(fg.ceil, "fastgrad", "ceil") == ["(input: Tensor) -> Tensor"]
    assert len(reference.signatures(fg.max, "fastgrad", "max")) > 2
    everything = [s for forms in reference.declared("fastgrad").values() for s in forms]
    assert not any(re.search(r"\b_(Tensor|int|Any)\b", s) for s in everything)
    (made,) = reference.signatures(fg.optim.ASGD, "fastgrad.optim", "ASGD")
    assert "lr: float | Tensor = 0.01" in made  # the annotation says Any, the docstring more
    (bound,) = reference.signatures(fg.optim.SGD.step, "fastgrad.optim", "SGD.step", method=True)
    assert not bound.startswith("(self")


def test_members_are_those_that_a_class_describes_itself(reference):
    tensor = "\n".join(reference.entry(fg, "Tensor"))
    assert ".. py:property:: grad\n      :type: Tensor | None\n" in tensor
    assert ".. py:method:: backward(" in tensor
    linear = "\n".join(reference.entry(fg.nn, "Linear"))
    assert "extra_repr" not in linear
    assert "device: Any = None" in linear


def test_signatures_of_what_has_none_and_of_odd_defaults(reference):
    class Opaque:
        __signature__ = "none"

        def __call__(self): ...

    def odd(a=object(), b=fg.float32, *, c: typing.Any = int): ...  # noqa: B008

    assert reference.signatures(Opaque(), "fastgrad.debug", "x") == ["(*args, **kwargs)"]
    assert reference.signatures(odd, "fastgrad.debug", "odd") == [
        "(a=..., b=fastgrad.float32, *, c: Any = int)"
    ]


def test_pages_are_the_same_each_time(reference):
    assert dict(reference.pages()) == dict(reference.pages())
    assert not any(re.search(r"\bat 0x[0-9a-f]{6}", text) for _, text in reference.pages())


def test_pages_of_names_that_are_gone_are_removed(reference, tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "pages", lambda: iter([("index", "new\n")]))
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "gone.rst").touch()
    reference.write(type("App", (), {"srcdir": tmp_path}))
    assert [p.name for p in (tmp_path / "api").iterdir()] == ["index.rst"]
    assert (tmp_path / "api" / "index.rst").read_text() == "new\n"
