"""Evaluation of submissions and vectors: µAP, recall, retrieval metrics, baselines, bootstrap intervals."""
