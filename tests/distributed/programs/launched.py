"""Prints what the launcher says, before and after a process group is made."""

import os
import sys

import fastgrad.distributed as dist

names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
before = [os.environ.get(name) for name in names]
dist.init_process_group(init_method="env://")
assert __name__ == "__main__"
found = [None] * dist.get_world_size()
dist.all_gather_object(found, (before, [os.environ[name] for name in names], dist.get_node_local_rank()))
if dist.get_rank() == 0:
    print(sys.argv[1:], os.path.basename(sys.argv[0]))
    for line in found:
        print(*line)
dist.destroy_process_group()
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
