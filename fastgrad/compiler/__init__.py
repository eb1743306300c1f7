"""What compiles recorded work: see `docs/compile.md`."""
