"""The engine of a home over Spark Connect: a session on it, and what a client that died left running there.

It knows ``local.engine``, where the engine is, and no tables. What else is asked of the engine goes here.
"""

from lakehouse.connect.orphans import end_work
from lakehouse.connect.session import attach

__all__ = ["attach", "end_work"]
