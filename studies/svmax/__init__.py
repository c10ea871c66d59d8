"""SVMax: a feature embedding regularizer (A. Taha et al., 2020)."""
