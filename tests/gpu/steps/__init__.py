"""What `tests.gpu.run_all` measures and checks on a GPU: a module for each step, run in a process of its own.

A module has a function ``run(machine)`` that yields rows as it finds them. With `--stand-in` sizes are tiny and the
driver is one without a GPU, so that the programs themselves are tested anywhere.
"""
