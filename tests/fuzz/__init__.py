"""A fuzzer: programs that misuse the library, run in processes of their own.

A *case* is a short list of statements, drawn from a seed by its *family*. Whatever a case does, the interpreter must
survive it in good order: `judge` says what that means. `worker` runs cases, `supervisor` starts workers and finds out
which case ended one, `shrink` makes a failing case short. ``python -m tests.fuzz --help`` says how to run it.
"""
