"""Functions on tensors, by family. Most are methods of `Tensor` as well; `fastgrad` exports them by name."""
