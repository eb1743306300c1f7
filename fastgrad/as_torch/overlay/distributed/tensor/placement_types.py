"""How tensors lie that several processes share, of which there are none: classes that are missing."""
