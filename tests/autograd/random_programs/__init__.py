"""Random graph programs with random hooks, the same program run in fastgrad and in PyTorch.

A program is a list of statements (`program`): ops, hooks, passes. `draw` draws one from a seed; `ops` knows which op
fits which shapes. `run` interprets a program with one library and writes down every event; `compare` says where two
logs part, and `shrink` takes statements away for as long as they do. `features` lists what only one of the libraries
may have yet, and what they do differently on purpose: programs keep to what both can do.

``python -m tests.autograd.random_programs --seeds 5000`` runs many.
"""
