"""Search by what is in a sample and what is not, ranked by probability."""

from manyhot.search.collection import Collection, ExpectedMatches, Hit, SearchResult
from manyhot.search.contact_sheet import contact_sheet
from manyhot.search.lexer import QueryError
from manyhot.search.query import Query

__all__ = ["Collection", "ExpectedMatches", "Hit", "Query", "QueryError", "SearchResult", "contact_sheet"]
