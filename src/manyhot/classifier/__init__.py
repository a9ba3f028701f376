"""A trained network with all that turns its scores into answers: predict, save, load, export."""

from manyhot.classifier.answers import Answer
from manyhot.classifier.classifier import Classifier

__all__ = ["Answer", "Classifier"]
