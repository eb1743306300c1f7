"""Another name of `distributed.fsdp`. The classes are missing; programs name them when they are imported."""
