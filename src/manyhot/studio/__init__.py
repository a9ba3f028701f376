"""A local web page to browse predictions, search them, compare decision rules and correct labels."""

from manyhot.studio.server import Address, bind, open_browser, serve
from manyhot.studio.session import Studio, open_studio

__all__ = ["Address", "Studio", "bind", "open_browser", "open_studio", "serve"]
