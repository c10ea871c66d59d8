"""What three papers add to the pipeline, a room for each: the core imports none of them, a recipe names what they have.

MultiGrain: a unified image embedding for classes and instances (M. Berman et al., 2019). SVMax: a feature embedding regularizer
(A. Taha et al., 2020). IDEAL: independent domain embedding augmentation learning (Z. Chen et al.). `claims` has what they share.
"""
