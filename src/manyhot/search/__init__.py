"""Search by what is in a sample and what is not, ranked by probability."""

from manyhot.search.collection import Collection
from manyhot.search.complaint import QueryError
from manyhot.search.found import Expectation, Found, Hit
from manyhot.search.query import Query
from manyhot.search.sheet import contact_sheet

__all__ = ["Collection", "Expectation", "Found", "Hit", "Query", "QueryError", "contact_sheet"]
