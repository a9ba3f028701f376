"""What people say about the labels of pictures: kept in a journal, and written as a table that training reads."""

from manyhot.studio.reviewing.journal import NotSaved
from manyhot.studio.reviewing.review import Review

__all__ = ["NotSaved", "Review"]
