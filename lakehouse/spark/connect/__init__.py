"""Spark Connect: a session on the engine of a home or on another server, and the work that a dead client left there.

- ``client``: a client with a limit on each wait, which gives up a silent server.
- ``session``: opens a session on an engine, on the server of the settings, or on the server of another session.
- ``orphans``: interrupts the work of a dead client and waits for its end.

``lakehouse.spark.engine`` provides the address of the engine. The package knows no tables. Add other requests to
such a server here.
"""

from lakehouse.spark.connect.orphans import end_work
from lakehouse.spark.connect.session import attach, join, join_same_server

__all__ = ["attach", "end_work", "join", "join_same_server"]
