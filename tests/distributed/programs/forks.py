"""A forked child ends without ending MPI for its parent."""

import os
import sys

import fastgrad as fg
import fastgrad.distributed as dist

dist.init_process_group()
n = dist.get_world_size()
child = os.fork()
if not child:
    for call in (lambda: dist.all_reduce(fg.ones(2)), dist.barrier, dist.destroy_process_group):
        try:
            call()
        except dist.DistError as error:
            assert "forked from a rank" in str(error)
        else:
            os._exit(4)
    assert (dist.get_rank(), dist.get_world_size()) == (int(os.environ["RANK"]), n)
    assert (fg.ones(2) * 2).tolist() == [2.0, 2.0]
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
x = fg.ones(2)
dist.all_reduce(x)
assert x.tolist() == [n, n]
print(f"rank {dist.get_rank()} is done\n", end="")
