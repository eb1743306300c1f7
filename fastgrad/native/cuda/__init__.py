"""The CUDA device as compiled code: its memory, its launches. It knows nothing of the runtime's record."""
