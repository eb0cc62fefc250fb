"""The log lines of the services that ``up`` shows: each event once."""

import re
from enum import StrEnum

_TIME = re.compile(r"^\s*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*( [+-]\d{4})?( - )?")
_EVALUATION = re.compile(r"Checking for new runs for (sensor|schedule)")
_SKIPPED_TICK = re.compile(r"(Sensor|Schedule) (\S+) skipped")
_PROBLEM = re.compile(r"\b(WARN(ING)?|ERROR|CRITICAL|FATAL)\b|Traceback|Error:|Exception:")


class Detail(StrEnum):
    """How much of the services' logs is shown."""

    quiet = "quiet"
    events = "events"
    all = "all"


class LogFilter:
    """Decides line by line, for one service.

    ``events`` hides that a sensor was evaluated, that a tick was skipped for the same reason as before, and a line that
    repeats the line before it with another time. ``quiet`` shows only warnings and errors.
    """

    def __init__(self, detail: Detail) -> None:
        self._detail = detail
        self._last_text = ""
        self._last_skips: dict[str, str] = {}

    def shows(self, line: str) -> bool:
        """Return whether the line is shown, and remember it."""
        if self._detail is Detail.all:
            return True
        if self._detail is Detail.quiet:
            return bool(_PROBLEM.search(line))
        text = _TIME.sub("", line)
        is_new = text != self._last_text and not _EVALUATION.search(text) and self._is_new_reason(text)
        self._last_text = text
        return is_new

    def _is_new_reason(self, text: str) -> bool:
        tick = _SKIPPED_TICK.search(text)
        if tick is None:
            return True
        last_text, self._last_skips[tick[2]] = self._last_skips.get(tick[2]), text
        return last_text != text
