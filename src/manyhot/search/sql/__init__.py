"""Probabilities as SQL: texts for any engine that reads the table of predictions."""

from manyhot.search.sql.names import quote_name, quote_text
from manyhot.search.sql.statements import probability, scored

__all__ = ["probability", "quote_name", "quote_text", "scored"]
