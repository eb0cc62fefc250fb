"""Spark Connect: a session on the engine of a home or on another server, and what a client that died left running.

``client`` asks with a limit and gives a silent server up, ``channel`` is the connection to an engine with its token,
``session`` opens a session on one, ``remote_server`` on the server of the settings or of another session, ``orphans``
interrupts what nobody waits for any more and waits for its end. It knows from ``lakehouse.spark.engine`` where the
engine is, and no tables. What else is asked of such a server goes here.
"""

from lakehouse.spark.connect.orphans import end_work
from lakehouse.spark.connect.remote_server import join, join_beside
from lakehouse.spark.connect.session import attach

__all__ = ["attach", "end_work", "join", "join_beside"]
