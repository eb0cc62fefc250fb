"""Wait for a condition, with a limit."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], limit: float = 20.0) -> bool:
    """Look until the condition holds, for at most ``limit`` seconds; whether it holds then."""
    deadline = time.monotonic() + limit
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()
