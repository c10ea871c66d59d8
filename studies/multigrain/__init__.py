"""MultiGrain: a unified image embedding for classes and instances (M. Berman et al., 2019)."""
