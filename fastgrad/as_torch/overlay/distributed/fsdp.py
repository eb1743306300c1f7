"""Modules whose parameters several processes share.

The classes are missing; programs name them when they are imported.
"""
