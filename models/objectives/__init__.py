"""What a descriptor learns from: one `Objective` for each `kind` of objective that a recipe may name."""
