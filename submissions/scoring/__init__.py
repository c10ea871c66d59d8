"""Scores of a submission or of vectors: µAP, recall, retrieval measures, baselines, intervals."""
