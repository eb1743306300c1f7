"""`fastgrad.hub`: files by their addresses, and repositories whose ``hubconf.py`` makes models."""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import zipfile
from pathlib import Path
from urllib.error import HTTPError

import pytest

import fastgrad as fg
from fastgrad import hub

CONF = """
dependencies = ["math"]
from beside import FACTOR
def scaled(x, by=1):
    "Times a factor."
    return x * FACTOR * by
def _private(): pass
number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", str(tmp_path / "hub"))
    return tmp_path


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    (root / "hubconf.py").write_text(CONF)
    (root / "beside.py").write_text("FACTOR = 2")
    return root


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_folder", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "torch" / "hub")
    hub.set_dir(tmp_path / "other")
    assert hub.get_dir() == str(tmp_path / "other")
    with pytest.raises(TypeError):
        hub.set_dir(3)


def test_files_are_downloaded_once(folder, capsys):
    fg.save({"a": fg.arange(3)}, folder / "there.pt")
    url = (folder / "there.pt").as_uri()
    assert hub.load_state_dict_from_url(url)["a"].tolist() == [0, 1, 2]
    assert "Downloading" in capsys.readouterr().err
    (folder / "there.pt").unlink()
    assert hub.load_state_dict_from_url(url, map_location="cpu", weights_only=True)["a"].tolist() == [0, 1, 2]
    assert capsys.readouterr().err == ""
    assert [path.name for path in (folder / "hub" / "checkpoints").iterdir()] == ["there.pt"]


def test_hashes_are_compared(folder):
    content = b"0123" * 100
    (folder / "a.bin").write_bytes(content)
    url, digest = (folder / "a.bin").as_uri(), hashlib.sha256(content).hexdigest()
    hub.download_url_to_file(url, str(folder / "b.bin"), digest[:8], progress=False)
    assert (folder / "b.bin").read_bytes() == content
    with pytest.raises(RuntimeError, match=r'invalid hash value \(expected "abcd", got'):
        hub.download_url_to_file(url, str(folder / "c.bin"), "abcd", progress=False)
    assert sorted(path.name for path in folder.iterdir()) == ["a.bin", "b.bin"]  # nothing half written stays
    (folder / "net-00ff00ff.pt").write_bytes(content)
    with pytest.raises(RuntimeError, match="00ff00ff"):
        hub.load_state_dict_from_url((folder / "net-00ff00ff.pt").as_uri(), check_hash=True, progress=False)


def test_an_archive_of_old_with_one_file_is_opened(folder):
    fg.save({"a": fg.ones(2)}, folder / "inner.pth")
    with zipfile.ZipFile(folder / "outer.pth", "w") as archive:
        archive.write(folder / "inner.pth", "inner.pth")
    loaded = hub.load_state_dict_from_url((folder / "outer.pth").as_uri(), progress=False)
    assert loaded["a"].tolist() == [1, 1]


def test_a_local_repository(repository):
    assert hub.load(str(repository), "scaled", fg.ones(2), by=3, source="local").tolist() == [6, 6]


@pytest.mark.parametrize(
    ("change", "arguments", "error"),
    [
        ({}, {"model": "other"}, RuntimeError), ({}, {"model": "number"}, RuntimeError),
        ({}, {"model": None}, ValueError), ({}, {"source": "elsewhere"}, ValueError),
        ({"hubconf.py": None}, {}, FileNotFoundError),
        ({"hubconf.py": "dependencies = ['no_such_package_here']\ndef scaled(): pass"}, {}, RuntimeError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lib", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def test_mistakes_have_pytorchs_class(repository, change, arguments, error, lib):
    loader = hub if lib == "fastgrad" else pytest.importorskip("torch").hub
    for name, text in change.items():
        (repository / name).unlink() if text is None else (repository / name).write_text(text)
    with pytest.raises(error):
        loader.load(str(repository), **({"model": "scaled", "source": "local"} | arguments))


@pytest.mark.parametrize("name", ["one", "a/b/c", "a/", "a/b:", "a/b:../../c", "a b/c", ""])
def test_malformed_names_of_repositories(folder, name):
    with pytest.raises(ValueError, match="hub"):
        hub.load(name, "scaled", trust_repo=True)


class GitHub:
    """Answers to requests, as GitHub would give them."""

    def __init__(self, root):
        self.asked = []
        self._root = root

    def __call__(self, request):
        self.asked.append((request.full_url, request.headers.get("Authorization")))
        url = request.full_url
        if url.endswith("/tree/main/"):
            raise HTTPError(url, 404, "none", {}, None)
        if "/branches" in url or "/tags" in url:
            kind = [{"name": "master", "commit": {"sha": "12ab"}}] if "/branches" in url else []
            return self._answer(json.dumps(kind if url.endswith("page=1") else []).encode())
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("owner-name-12ab/", "")
            for path in self._root.iterdir():
                archive.writestr(f"owner-name-12ab/{path.name}", path.read_text())
        return self._answer(file.getvalue())

    @staticmethod
    def _answer(content):
        answer = io.BytesIO(content)
        answer.headers = {"Content-Length": str(len(content))}
        return answer


def test_a_repository_on_github(folder, repository, monkeypatch, capsys):
    github = GitHub(repository)
    monkeypatch.setattr(hub, "urlopen", github)
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    said = []
    monkeypatch.setattr(builtins, "input", lambda question: said.append(question) or "n")
    with pytest.raises(Exception, match="Untrusted repository"):
        hub.load("owner/name", "scaled", fg.ones(1))
    assert len(said) == 1
    assert hub.load("owner/name", "scaled", fg.ones(1), trust_repo=True).tolist() == [2]
    assert (folder / "hub" / "owner_name_master" / "hubconf.py").exists()
    assert (folder / "hub" / "trusted_list").read_text() == "owner_name\n"
    assert {token for url, token in github.asked if "api." in url} == {"token secret"}
    assert {token for url, token in github.asked if "api." not in url} == {None}
    count = len(github.asked)
    assert hub.list("owner/name:master") == ["scaled"]
    assert hub.help("owner/name:master", "scaled") == "Times a factor."
    assert len(github.asked) == count  # it is there
    assert "Using cache found in" in capsys.readouterr().err
    with pytest.raises(ValueError, match="Cannot find v2"):
        hub.load("owner/name:v2", "scaled", fg.ones(1))
    with pytest.raises(Exception, match="Untrusted"):
        hub.load("owner/name:master", "scaled", fg.ones(1), trust_repo=False)


def test_what_trust_repo_may_be(folder):
    with pytest.raises(ValueError, match="trust_repo"):
        hub.load("owner/name:main", "scaled", trust_repo="always")


@pytest.mark.parametrize("address", [None, 3, b"owner/name", fg.ones(1)])
def test_an_address_is_text(address: object, tmp_path: Path) -> None:
    for call in (
        lambda: hub.load(address, "model"),
        lambda: hub.list(address),
        lambda: hub.load_state_dict_from_url(address, str(tmp_path)),
        lambda: hub.download_url_to_file(address, str(tmp_path / "file")),
    ):
        with pytest.raises(TypeError, match="must be str, not"):
            call()
    assert not list(tmp_path.iterdir())
