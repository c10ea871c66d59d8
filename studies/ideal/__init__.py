"""IDEAL: independent domain embedding augmentation learning (Z. Chen et al.)."""
