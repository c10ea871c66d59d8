"""Evaluation of submissions and vectors: µAP, recall, retrieval metrics, bootstrap intervals."""
