"""Which lines of the services ``up`` shows: each event once."""

import re
from enum import StrEnum

_TIME = re.compile(r"^\s*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*( [+-]\d{4})?( - )?")
_LOOKING = re.compile(r"Checking for new runs for (sensor|schedule)")
_TICK = re.compile(r"(Sensor|Schedule) (\S+) skipped")
_BAD = re.compile(r"\b(WARN(ING)?|ERROR|CRITICAL|FATAL)\b|Traceback|Error:|Exception:")


class Detail(StrEnum):
    """How much of the services' logs is shown."""

    quiet = "quiet"
    events = "events"
    all = "all"


class LogFilter:
    """Decides line by line, for one service.

    ``events`` leaves out that a sensor was looked at, that a tick was skipped for the same reason as before, and a line
    that says the same as the one before it, whatever its time. ``quiet`` shows warnings and errors only.
    """

    def __init__(self, detail: Detail) -> None:
        self._detail = detail
        self._before = ""
        self._reasons: dict[str, str] = {}

    def shows(self, line: str) -> bool:
        """Return whether the line is shown; remembers it."""
        if self._detail is Detail.all:
            return True
        if self._detail is Detail.quiet:
            return bool(_BAD.search(line))
        text = _TIME.sub("", line)
        is_new = text != self._before and not _LOOKING.search(text) and self._is_another_reason(text)
        self._before = text
        return is_new

    def _is_another_reason(self, text: str) -> bool:
        tick = _TICK.search(text)
        if tick is None:
            return True
        before, self._reasons[tick[2]] = self._reasons.get(tick[2]), text
        return before != text
