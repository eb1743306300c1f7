"""How ``python -m fastgrad.as_torch`` runs scripts and modules, and what the processes see that these start."""

from __future__ import annotations

import textwrap

import pytest
from alias_running import ALIAS, output, started


def script(folder, text, name="script.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_a_script_runs_as_python_would_run_it(tmp_path):
    script(tmp_path, "import torch\nvalue = torch.ones(2).sum().item()", "beside.py")
    path = script(
        tmp_path,
        """
        import atexit, os, sys
        import torch, beside
        folder = os.path.dirname(os.path.abspath(__file__))
        print(sys.argv[1:], sys.argv[0] == __file__, __name__, sys.path[0] == folder)
        print(sys.modules["__main__"].beside is beside, beside.value, __spec__)
        atexit.register(lambda: print("end", __name__, beside.value))
        sys.exit(int(sys.argv[1]))
        """,
    )
    done = started(*ALIAS, path, "3", "--flag", cwd=tmp_path.parent)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "['3', '--flag'] True __main__ True\nTrue 2.0 None\nend __main__ 2.0\n"


@pytest.mark.parametrize("place", ["script.py", "../folder/script.py", "./script.py"])
def test_files_and_folders_are_absolute_as_under_python(tmp_path, place):
    folder = tmp_path / "folder"
    folder.mkdir()
    script(folder, "value = 3", "beside.py")
    script(
        folder,
        """
        import os, sys
        os.chdir("/")
        import beside
        print(__file__, sys.argv, sys._getframe().f_code.co_filename, os.path.exists(__file__), beside.value)
        """,
    )
    python = output(place, cwd=folder)
    assert output(*ALIAS, place, cwd=folder).replace("/./", "/") == python.replace("/./", "/")
    script(folder, "import os, sys\nos.chdir('/')\nimport beside\nprint(__file__, sys.argv)", "__main__.py")
    python = output("folder", cwd=tmp_path)
    assert output(*ALIAS, "folder", cwd=tmp_path) == python


def test_tracebacks_are_those_of_the_script(tmp_path):
    done = started(*ALIAS, script(tmp_path, "import torch\ntorch.ones(2) @ torch.ones(3)"))
    assert done.returncode == 1
    assert 'script.py", line 2' in done.stderr
    assert "torch.ones(2) @ torch.ones(3)" in done.stderr


def test_modules_and_folders(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    script(folder, "", "__init__.py")
    script(
        folder, "import sys, torch\nprint(__name__, __package__, sys.argv[1:], torch.float32)", "__main__.py"
    )
    assert output(*ALIAS, "-m", "package", "-x", cwd=tmp_path) == "__main__ package ['-x'] torch.float32\n"
    assert output(*ALIAS, folder, "1").endswith("['1'] torch.float32\n")
    script(
        tmp_path,
        "def test_it():\n    import torch\n    assert torch.ones(1).dtype is torch.float32",
        "test_it.py",
    )
    assert "1 passed" in output(*ALIAS, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)


CHILDREN = """
    import multiprocessing, subprocess, sys
    import torch, torch.multiprocessing as mp

    def scaled(x):
        return f"{torch.float32} {type(x)} {(2 * x).tolist()}"

    def fails(rank, message):
        if rank == 1:
            raise ValueError(message)

    def says(rank, queue):
        queue.put(rank * torch.ones(1))

    if __name__ == "__main__":
        for method in ("spawn", "forkserver"):
            with mp.get_context(method).Pool(1) as pool:
                print(pool.apply(scaled, (torch.ones(2),)))
        command = [sys.executable, "-c", "import torch; print(torch)"]
        print(subprocess.run(command, capture_output=True, text=True).stdout)
        queue = mp.get_context("spawn").SimpleQueue()
        mp.spawn(says, (queue,), nprocs=2)
        print(sorted(queue.get().item() for _ in range(2)))
        try:
            mp.spawn(fails, ("no luck",), nprocs=2)
        except mp.ProcessRaisedException as error:
            print("no luck" in str(error), error.error_index)
"""


def test_processes_that_are_started_get_the_alias(tmp_path):
    lines = output(*ALIAS, script(tmp_path, CHILDREN), cwd=tmp_path).split("\n")
    expected = "torch.float32 <class 'torch.Tensor'> [2.0, 2.0]"
    answered = "<module 'torch', answered by fastgrad>"
    assert lines == [expected, expected, answered, "", "[0.0, 1.0]", "True 1", ""]


def test_check_lists_what_is_missing_and_runs_nothing(tmp_path):
    path = script(
        tmp_path,
        """
        import torch as th
        import torch.nn.functional as F
        from torch import nn
        from torch.optim import SGD, SparseAdam
        from torch.sparse import softmax
        print("this is not run")
        def f(x: th.Tensor):
            y = F.relu(nn.Linear(2, 2)(x)).to_sparse()
            y.values(), x.to_mkldnn(), x.numpy(), th.nested.nested_tensor([x])
            return th.sparse_coo_tensor(x, y), SparseAdam(3), nn.Linear.no_such, th.cuda.is_available().no_such
        """,
    )
    done = started(*ALIAS, "--check", path)
    assert done.returncode == 1, done.stderr
    found = [
        line.split(": ")[0].rpartition(":")[2] + " " + line.split(": ")[1]
        for line in done.stdout.splitlines()
    ]
    assert found == [
        "5 torch.optim.SparseAdam",
        "6 torch.sparse",
        "9 Tensor.to_sparse",
        "10 Tensor.to_mkldnn",
        "10 torch.nested",
        "11 torch.nn.Linear.no_such",
        "11 torch.sparse_coo_tensor",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import torch\ntorch.ones(1)", 0),
        ("import torch\ntorch.ops.mine.of_the_program(1)", 0),
        ("import torch\ntorch.ops.aten.no_such(1)", 1),
        ("def", 2),
        ("", 0),
    ],
)
def test_check_of_other_files(tmp_path, text, code):
    script(tmp_path, text)
    assert started(*ALIAS, "--check", tmp_path).returncode == code
    assert started(*ALIAS, "--check", tmp_path / "none.py").returncode == 2
