"""Random programs that `compile` records and replays, beside the same programs run eagerly.

A program (`draw`) is the source of a function and a list of calls, with changes of what it sees between them; it
follows from its seed. `run` calls it eagerly and compiled, in worlds of their own (`world`), and compares all that can
be seen: what the calls give, gradients, parameters, what hooks noted, random numbers, exceptions. Most programs run
without fusion, whose kernels would have to be compiled; then all is the same bit by bit.

``python -m tests.compiler.random_steps --seeds 3000`` runs many.
"""
