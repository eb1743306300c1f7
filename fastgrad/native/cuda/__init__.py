"""The CUDA device as compiled code: its memory, its launches. A unit of its own, which knows nothing of the runtime's."""
