"""Files that several processes write. The classes are missing; programs name them when they are imported."""
