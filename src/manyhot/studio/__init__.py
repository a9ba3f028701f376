"""The studio: look at predictions, search them, try decisions, and correct labels, in a page of this machine."""

from manyhot.studio.opening import open_studio
from manyhot.studio.serving import Address, listen, open_browser, serve
from manyhot.studio.session import Studio

__all__ = ["Address", "Studio", "listen", "open_browser", "open_studio", "serve"]
