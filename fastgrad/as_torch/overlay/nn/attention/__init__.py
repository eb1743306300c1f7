"""Kinds of attention that are missing; programs name them when they are imported."""
