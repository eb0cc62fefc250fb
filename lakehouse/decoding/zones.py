"""Time zones: the offset from UTC of a local time, which a text without an offset writes.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

REQUIRED = "required"
"""In place of the name of a zone: a text must have an offset."""
LocalTimeRule = Literal["reject", "earlier", "later"]


@dataclass(frozen=True)
class Zone:
    """The time zone of texts without an offset, by its name in the tz database; a text with an offset ignores it.

    ``ambiguous`` decides about a local time that occurs twice, because clocks are set back: ``reject`` rejects the
    record, ``earlier`` takes the first of the two times, ``later`` the second. ``missing`` decides about a local time
    that does not occur, because clocks are set forward: ``reject`` rejects the record, ``earlier`` subtracts the offset
    after the change, ``later`` the offset before it. If 02:00 becomes 03:00, 02:30 is read as 01:30 or as 03:30.
    """

    name: str
    ambiguous: LocalTimeRule = "reject"
    missing: LocalTimeRule = "reject"


def zone_of(zone: str | Zone | None) -> Zone | None:
    """The zone that a name or a zone declares."""
    return Zone(zone) if isinstance(zone, str) else zone


def offsets_of(local_time: datetime, zone: Zone) -> tuple[timedelta, timedelta]:
    """The offsets of a local time: the two are equal unless clocks change.

    If the time occurs twice, the first is the greater one. If it does not occur, the second is the greater one, and the
    two are the offsets before and after the change.
    """
    info = ZoneInfo(zone.name)
    offset_before, offset_after = (info.utcoffset(local_time.replace(fold=fold)) for fold in (0, 1))
    return offset_before or timedelta(0), offset_after or timedelta(0)
