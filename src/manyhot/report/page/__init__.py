"""One self-contained HTML page about what a model does, from runs or from tables of predictions.

Nothing here is imported that needs torch or jinja2 before a page is asked for.
"""

from manyhot.report.page.report import Report, write_report

__all__ = ["Report", "write_report"]
