"""The windows that Kafka Streams and ksqlDB write after the key of a record.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from typing import NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.record_parts import KeyWindow

_TIME_SIZE = 8
_SIZES: dict[KeyWindow, int] = {"time": _TIME_SIZE, "session": 2 * _TIME_SIZE}
_END_OF_TIME = 253_402_300_800_000  # the year 10000: eight bytes of text, or of another number, are hardly less


class WindowedKey(NamedTuple):
    """A key without its window, and the start and the end of that, in milliseconds since 1970."""

    key: bytes
    start: int
    end: int | None


def split_window(key: bytes, window: KeyWindow) -> WindowedKey:
    """Split a key from its window, which ends with its start; the end of a session is before that.

    Raises ``Rejection`` with the reason ``wrong_type`` if the last bytes are not those of such a window.
    """
    size = _SIZES[window]
    start = int.from_bytes(key[-_TIME_SIZE:], "big", signed=True)
    end = int.from_bytes(key[-size:-_TIME_SIZE], "big", signed=True) if window == "session" else None
    if len(key) < size or not 0 <= start <= (start if end is None else end) < _END_OF_TIME:
        raise Rejection("wrong_type", f"the last {size} bytes of the key are not those of a {window} window")
    return WindowedKey(key[:-size], start, end)
