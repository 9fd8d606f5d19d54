"""A local web page that shows the rows of a data set.

The server reads a ``shardmill.Dataset`` of any format and listens only on the loopback address. It
never writes. Values of the data are sent as JSON, and the page shows them as text.
"""

from shardmill.view._server import ViewServer
from shardmill.view._session import Session, Source
from shardmill.view._token_columns import TokenColumns

__all__ = ["Session", "Source", "TokenColumns", "ViewServer"]
