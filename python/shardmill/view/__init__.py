"""A local web page that shows the rows of a data set.

A :class:`shardmill.Dataset` enters, answers to HTTP requests leave, on the loopback address alone. Nothing is ever written, and nothing
here knows a format: what the data set reads, the page shows. Values from the data go out as JSON, and the page makes text of them.
"""

from shardmill.view.server import ViewServer
from shardmill.view.session import Session, Source

__all__ = ["Session", "Source", "ViewServer"]
