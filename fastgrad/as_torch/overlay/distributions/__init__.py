"""Names of ``torch.distributions`` that libraries take from within."""
