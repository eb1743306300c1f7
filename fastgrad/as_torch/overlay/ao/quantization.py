"""Numbers of few bits. The classes are missing; programs name them when they are imported."""
