"""Data sets that several processes share. The class is missing; programs name it when they are imported."""
