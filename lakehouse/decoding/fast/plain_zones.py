"""The offsets of many local times in a time zone: one for all times of a day, unless clocks change on it."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.zones import REQUIRED, Zone

Seconds = npt.NDArray[np.int64]
_DAY = 86_400
_PERIODS = _DAY, 3_600, 1  # seconds: a period in which clocks change is divided into shorter ones
_UNCERTAIN = 10**9  # in place of an offset


def offsets_in(local_times: Seconds, zone: Zone) -> tuple[Seconds, Mask]:
    """Return the offset of each local time in seconds, and a mask of the times that have one.

    A time that the zone rejects has none. Times are seconds since 1970 of the years 1 to 9999.
    """
    utc_offsets, is_certain = np.full(len(local_times), _UNCERTAIN), np.zeros(len(local_times), bool)
    if zone.name == REQUIRED:
        return utc_offsets, is_certain
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
    before = _in_seconds(map(info.utcoffset, starts.astype("datetime64[s]").tolist()))
    after = _in_seconds(map(info.utcoffset, _second_occurrences(starts + period - 1)))
    uncertain = np.full(len(starts), _UNCERTAIN)
    choices = {"reject": uncertain, "earlier": np.maximum(before, after), "later": np.minimum(before, after)}
    chosen = np.where(before > after, choices[zone.ambiguous], choices[zone.missing]) if period == 1 else uncertain
    return np.where(before == after, before, chosen)


def _second_occurrences(local_times: Seconds) -> list[datetime]:
    """Local times that mean the second one if they occur twice; faster than ``datetime.replace`` for each."""
    seconds_of_day = (local_times % _DAY).tolist()
    clocks = {
        second: (datetime.min + timedelta(seconds=second)).time().replace(fold=1) for second in set(seconds_of_day)
    }
    days = local_times.astype("datetime64[s]").tolist()
    return [datetime.combine(day, clocks[second]) for day, second in zip(days, seconds_of_day, strict=True)]


def _in_seconds(utc_offsets: Iterable[timedelta | None]) -> Seconds:
    return np.array([value.days * _DAY + value.seconds for value in utc_offsets if value is not None], np.int64)
