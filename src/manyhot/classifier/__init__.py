"""A trained network with what turns its scores into answers: predict, save, load, export."""

from manyhot.classifier.classifier import Answer, Classifier

__all__ = ["Answer", "Classifier"]
