"""Programs that go on after their GPUs are gone, or do odd things with them: each in a process of its own."""

from __future__ import annotations

import pytest

from tests.cuda.apart import ends

REFUSES = """
def refuses(call, error=RuntimeError):
    try:
        call()
    except error:
        return
    raise AssertionError("nothing was raised")
"""

PROGRAMS = {
    "tensors outlive the driver": """
with attached(FakeDriver()):
    x = fg.ones(3, device="cuda", requires_grad=True)
    s, e = fg.cuda.Stream(), fg.cuda.Event()
    e.record(s)
    p = fg.ones(3).pin_memory()
    p.to("cuda", non_blocking=True)
    c = x.detach().__dlpack__()
    a = fg.from_dlpack(x.detach().__dlpack__())
assert fg.cuda.memory_allocated() == 0 and not fg.cuda.is_initialized()
(x * 2).sum().backward()
assert x.grad.tolist() == [2] * 3 and x.cpu().is_cpu and str(x.device) == "cuda:0"
for call in (lambda: fg.ones(2, device="cuda"), fg.cuda.Stream, fg.cuda.synchronize, lambda: fg.ones(2).pin_memory(),
             lambda: fg.ones(2).cuda(), fg.cuda.current_stream, e.record, lambda: fg.ones(2).to(x)):
    refuses(call)
assert e.query() in (True, False)
s.synchronize(); s.query()
x.record_stream(s)
del p, c, a, x, s, e
gc.collect()
""",
    "another driver comes": """
with attached(FakeDriver()):
    x = fg.ones(3, device="cuda")
    y, y = fg.ones(3, device="cuda"), fg.ones(3, device="cuda")  # by its plan, which says which GPU "cuda" is
with attached(FakeDriver(n_gpus=2)):
    y = fg.ones(3, device="cuda") + 1
    assert y.tolist() == [2] * 3
    with fg.cuda.device(1):
        assert fg.ones(3, device="cuda").get_device() == 1
    z = fg.ones(3, device="cuda:1")
    assert z.tolist() == [1] * 3
    del x
    gc.collect()
""",
    "a generator of a thread that is gone": """
with attached(FakeDriver()):
    def produce():
        with fg.cuda.stream(fg.cuda.Stream()), fg.device("cuda"):
            yield fg.ones(3)
            yield fg.ones(3)
    g, seen = produce(), []
    t = threading.Thread(target=lambda: seen.append(next(g)))
    t.start(); t.join()
    seen.append(next(g))
    g.close()
    fg.cuda.synchronize()
    assert [str(x.device) for x in seen][0] == "cuda:0"
    assert fg.ones(2).device.type == "cpu"
    assert fg.cuda.current_stream() == fg.cuda.default_stream()
""",
    "threads that never end": """
driver = FakeDriver()
gpus.attach(driver, driver.compiler)
ready = threading.Event()
def work():
    fg.cuda.set_stream(fg.cuda.Stream())
    x = fg.ones(3, device="cuda")
    ready.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
assert ready.wait(30)
""",
    "destructors that use a GPU at the end": """
driver = FakeDriver()
gpus.attach(driver, driver.compiler)
class Late:
    def __init__(self): self.x = fg.ones(3, device="cuda"); self.s = fg.cuda.Stream(); self.me = self
    def __del__(self): self.x.record_stream(self.s); self.s.synchronize()
late = Late()
fg.late = Late()
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name):
    assert ends(REFUSES + PROGRAMS[name]) == (0, "", "")
