"""The version: this line is its only home."""

__version__ = "0.1.0"
