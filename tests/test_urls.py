"""The addresses that a package names: where they come from, and that they stay with a source distribution."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

pytestmark = pytest.mark.static

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("hatch_urls", ROOT / "hatch_urls.py")
hook = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hook)

AT_GITHUB = {
    "Homepage": "https://github.com/some/fast-grad.py",
    "Source": "https://github.com/some/fast-grad.py",
    "Issues": "https://github.com/some/fast-grad.py/issues",
    "Changelog": "https://github.com/some/fast-grad.py/blob/main/CHANGELOG.md",
    "Documentation": "https://github.com/some/fast-grad.py/tree/main/docs",
}


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/some/fast-grad.py", "https://github.com/some/fast-grad.py.git",
        "https://GitHub.com/some/fast-grad.py/", "git@github.com:some/fast-grad.py.git",
        "ssh://git@github.com/some/fast-grad.py.git", "ssh://git@github.com:22/some/fast-grad.py",
        "https://me:secret@github.com/some/fast-grad.py.git", "https://token@github.com/some/fast-grad.py\n",
    ],
)  # fmt: skip
def test_a_remote_on_a_known_host(remote):
    assert hook.of_remote(remote) == AT_GITHUB


def test_hosts_show_issues_and_files_elsewhere():
    found = hook.of_remote("git@gitlab.com:group/part/name.git")
    assert found["Issues"] == "https://gitlab.com/group/part/name/-/issues"
    assert found["Changelog"] == "https://gitlab.com/group/part/name/-/blob/main/CHANGELOG.md"
    assert hook.of_remote("https://codeberg.org/a/b")["Documentation"].endswith("a/b/src/branch/main/docs")


@pytest.mark.parametrize(
    "remote",
    [
        "", "/home/me/fastgrad", "../fastgrad", "file:///home/me/fastgrad", "C:/fastgrad", "https://localhost/a/b",
        "https://10.0.0.1/a/b", "git@intern.example.com:a/b.git", "https://github.com", "https://github.com/a",
        "http://github.com/a/b", "git://github.com/a/b", "https://github.com/a/b?x=1", "https://github.com/a/b c",
        "https://github.com/a/<b>", "https://github.com.evil.example/a/b", "https://github.com@evil.example/a/b",
        "https://github.com:8443/a/b", "git@github.com:/a/b", "github.com:a/b",
    ],
)  # fmt: skip
def test_other_remotes_give_none(remote):
    assert hook.of_remote(remote) == {}


def test_a_build_on_github(tmp_path):
    job = {
        "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "some/fast-grad.py",
        "GITHUB_WORKSPACE": str(tmp_path),
    }  # fmt: skip
    assert hook.of_github(job, str(tmp_path)) == AT_GITHUB
    assert hook.of_github(job, str(tmp_path / "site-packages")) == {}  # a job of another project's
    for name, wrong in (
        ("GITHUB_SERVER_URL", "http://github.com"), ("GITHUB_SERVER_URL", "https://a:b@github.com"),
        ("GITHUB_SERVER_URL", "https://localhost"), ("GITHUB_SERVER_URL", "https://10.0.0.1"),
        ("GITHUB_SERVER_URL", ""), ("GITHUB_REPOSITORY", ""), ("GITHUB_REPOSITORY", "name"), ("GITHUB_WORKSPACE", ""),
    ):  # fmt: skip
        assert hook.of_github({**job, name: wrong}, str(tmp_path)) == {}
    for name in job:
        assert hook.of_github({k: v for k, v in job.items() if k != name}, str(tmp_path)) == {}


# --- what is built -----------------------------------------------------------------------------------------------

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@pytest.fixture
def project(tmp_path):
    """What a package is built of, with one module in place of all."""
    folder = tmp_path / "project"
    (folder / "fastgrad").mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "hatch_urls.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "fastgrad" / "_version.py", folder / "fastgrad")
    (folder / "fastgrad" / "__init__.py").touch()
    return folder


def built(folder, kind, **environment):
    """What a package of a folder names, and the file that it is."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder.parent / "dist")]
    subprocess.run(
        command,
        cwd=folder,
        env={**kept, "FASTGRAD_BUILD": "pure", **environment},
        check=True,
        capture_output=True,
    )
    (made,) = (folder.parent / "dist").glob("*.tar.gz" if kind == "sdist" else "*.whl")
    if kind == "sdist":
        with tarfile.open(made) as archive:
            (name,) = (n for n in archive.getnames() if n.endswith("/PKG-INFO"))
            text = archive.extractfile(name).read().decode()
    else:
        with zipfile.ZipFile(made) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            text = archive.read(name).decode()
    lines = Parser().parsestr(text).get_all("Project-URL", [])
    return dict(line.split(", ") for line in lines), made


def job_at(folder):
    return {
        "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "other/name", "GITHUB_WORKSPACE": str(folder),
    }  # fmt: skip


def unpacked(archive, folder):
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    return inner


@needs_git
def test_a_wheel_of_a_source_distribution_names_what_that_names(project, tmp_path):
    for command in (["init", "-q"], ["remote", "add", "origin", "git@github.com:some/fast-grad.py.git"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    named, archive = built(project, "sdist")
    assert named == AT_GITHUB
    inner = unpacked(archive, tmp_path / "unpacked")
    assert built(inner, "wheel", **job_at(inner))[0] == AT_GITHUB


def test_without_an_address_none_is_named(project, tmp_path):
    named, archive = built(project, "sdist")
    assert named == {}
    inner = unpacked(archive, tmp_path / "unpacked")
    assert built(inner, "wheel", **job_at(inner))[0] == {}


@needs_git
def test_a_folder_within_another_clone_does_not_name_that_one(project, tmp_path):
    for command in (["init", "-q"], ["remote", "add", "origin", "https://github.com/a/b"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert built(project, "wheel")[0] == {}


def test_a_job_names_its_repository(project):
    named, _ = built(project, "wheel", **job_at(project))
    assert named["Source"] == "https://github.com/other/name"
    assert list(named) == list(AT_GITHUB)
