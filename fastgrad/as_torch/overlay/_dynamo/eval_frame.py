"""Classes of PyTorch's compiler, which libraries look for among modules: there are none here."""
