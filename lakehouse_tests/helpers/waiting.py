"""Wait for a condition with a time limit."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], limit: float = 20.0) -> bool:
    """Check the condition repeatedly for at most ``limit`` seconds; return whether it became true."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True
