"""What is in a data set, and what is wrong with it, before anything is trained on it."""

from manyhot.data.survey.result import (
    Duplicates,
    ImageFacts,
    LabelFacts,
    LabelPair,
    Survey,
)
from manyhot.data.survey.surveying import survey

__all__ = ["Duplicates", "ImageFacts", "LabelFacts", "LabelPair", "Survey", "survey"]
