"""The digest that names and checks files of the cache.

`hashlib` has the same function, and loads OpenSSL with it: a fortieth of an import of the package.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built otherwise
    from hashlib import blake2b

__all__ = ["blake2b"]
