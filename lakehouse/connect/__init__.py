"""The engine of a home over Spark Connect: a session on it, and what a client that died left running there.

``channel`` is the connection with its token, ``session`` opens a session, ``orphans`` interrupts what nobody waits for
any more and waits for its end. It knows from ``local`` where the engine is, and no tables. What else is asked of the
engine goes here.
"""

from lakehouse.connect.orphans import end_work
from lakehouse.connect.session import attach

__all__ = ["attach", "end_work"]
