"""Wait for a condition, with a limit."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], limit: float = 20.0) -> bool:
    """Look until the condition holds, for at most ``limit`` seconds; whether it was seen to hold."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True
