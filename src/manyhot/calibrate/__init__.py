"""Calibrators: from scores to probabilities that held-out data bear out."""
