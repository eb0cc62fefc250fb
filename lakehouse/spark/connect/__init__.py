"""Spark Connect: a session on the engine of a home or on another server, and the work that a dead client left there.

- ``client``: a client with a limit on each wait, which gives up a silent server.
- ``channel``: the connection to an engine, with its token.
- ``session``: opens a session on an engine.
- ``remote_server``: opens a session on the server of the settings, or on the server of another session.
- ``orphans``: interrupts the work of a dead client and waits for its end.

``lakehouse.spark.engine`` provides the address of the engine. The package knows no tables. Add other requests to
such a server here.
"""

from lakehouse.spark.connect.orphans import end_work
from lakehouse.spark.connect.remote_server import join, join_same_server
from lakehouse.spark.connect.session import attach

__all__ = ["attach", "end_work", "join", "join_same_server"]
