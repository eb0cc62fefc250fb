"""``start``: where a new table begins in its topic."""

from collections.abc import Mapping
from datetime import UTC, datetime

LATEST = "latest"
"""The start of a table that begins at the end of its topic."""
FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The first time that the time index of a broker can look up."""
Start = datetime | str | Mapping[int, int]
"""A time, also as text in ISO 8601, ``LATEST``, or an offset for each partition."""


def start_time(start: Start | None) -> datetime | None:
    """Return the time at which a table begins; ``None`` if it begins at no time. ``ValueError`` for any other text."""
    if isinstance(start, str) and start != LATEST:
        return datetime.fromisoformat(start)
    return start if isinstance(start, datetime) else None
