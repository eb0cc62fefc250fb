"""The offsets of many local times in a time zone: one for all times of a day, unless clocks change on it."""

from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.zones import Zone

Seconds = npt.NDArray[np.int64]
_PERIODS = 86_400, 3_600, 1  # seconds: a period in which clocks change is divided into shorter ones
_UNCERTAIN = 10**9  # in place of an offset


def offsets_in(local_times: Seconds, zone: Zone) -> tuple[Seconds, Mask]:
    """Return the offset of each local time in seconds, and a mask of the times that have one.

    A time that the zone rejects has none. Times are seconds since 1970 of the years 1 to 9999.
    """
    utc_offsets, is_certain = np.full(len(local_times), _UNCERTAIN), np.zeros(len(local_times), bool)
    for period in _PERIODS:
        rows = np.flatnonzero(~is_certain)
        if len(rows):
            periods, indices = np.unique(local_times[rows] // period, return_inverse=True)
            utc_offsets[rows] = _offsets_of_periods(periods * period, period, zone)[indices]
            is_certain = utc_offsets != _UNCERTAIN
    return utc_offsets, is_certain


def _offsets_of_periods(starts: Seconds, period: int, zone: Zone) -> Seconds:
    """The offset of each period; no zone of the tz database changes its clocks twice within two days."""
    info = ZoneInfo(zone.name)
    first_times, last_times = (times.astype("datetime64[s]").tolist() for times in (starts, starts + period - 1))
    before = _seconds([info.utcoffset(time) for time in first_times])
    after = _seconds([info.utcoffset(time.replace(fold=1)) for time in last_times])
    uncertain = np.full(len(starts), _UNCERTAIN)
    choices = {"reject": uncertain, "earlier": np.maximum(before, after), "later": np.minimum(before, after)}
    chosen = np.where(before > after, choices[zone.ambiguous], choices[zone.missing]) if period == 1 else uncertain
    return np.where(before == after, before, chosen)


def _seconds(durations: list[object]) -> Seconds:
    return np.array(durations, "timedelta64[s]").astype(np.int64)
