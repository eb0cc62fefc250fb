"""Deterministic sample records for the demo, the tests and the benchmarks: every run generates the same bytes.

The temperatures do not depend on the clock. The ratings depend on the date, because their table rejects late records.
Each declared table with samples has a class here that implements ``lakehouse.declaration.Samples``, and the declaration
refers to it. This module imports only the standard library.
"""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

_RATING_COUNT, _USER_COUNT, _MOVIE_COUNT = 1_000, 60, 40
_EVENT_DAYS = 2  # before today; some events move back by one more day, and still none of them is late
_DAY_SECONDS = 86_400
_DUPLICATE_INTERVAL, _LATE_INTERVAL = 25, 20
_CORRECTED_COUNT, _MOVED_COUNT, _NEW_COUNT = 200, 20, 50
_DEVICES = ("phone", "browser", "television")
_BASE_FIELDS: list[dict[str, Any]] = [
    {"name": "event_id", "type": "string"},
    {"name": "user_id", "type": "string"},
    {"name": "movie_id", "type": "string"},
    {"name": "rating", "type": "float", "doc": "From 0 to 10."},
    {"name": "rating_timestamp", "type": "long", "doc": "Seconds since 1970, UTC."},
]
_DEVICE_FIELD = {"name": "device", "type": ["null", "string"], "default": None}


class _Place(NamedTuple):
    """A grid point of the weather service and its climate, in degrees Celsius."""

    name: str
    file: str
    latitude: float
    longitude: float
    elevation: float
    mean: float
    season: float
    day: float


_PLACES = (
    _Place("Bangalore, India", "Bangalore", 13.0, 77.600006, 910.0, mean=24.0, season=2.5, day=4.5),
    _Place("Spring, TX, USA", "Spring", 30.200005, -95.5, 55.0, mean=20.5, season=9.0, day=5.0),
    _Place("Rome, Italy", "Rome", 41.90001, 12.5, 58.0, mean=16.5, season=9.0, day=4.5),
    _Place("Anchorage, AK, USA", "Anchorage", 61.199997, -149.9, 38.0, mean=3.0, season=12.5, day=3.0),
    _Place("Paris, France", "Paris", 48.90001, 2.300003, 47.0, mean=12.5, season=8.0, day=4.0),
    _Place("London, England", "London", 51.5, -0.099990845, 9.0, mean=11.5, season=7.0, day=3.5),
)
_BASE_YEARS = range(2019, 2023)
_STREAM_DATES = (date(2023, 1, 1), date(2023, 7, 1))
_SILENT_PLACE, _SILENT_FROM = "Spring", "2023-06-27T00:00"
_CORRECTED_PLACE, _CORRECTED_YEAR, _CORRECTION = "Anchorage", 2019, 0.7
_EARLY_YEAR, _EARLY_HOURS = 2009, 10
_COLDEST_DAY, _WARMEST_HOUR = 20, 15


@dataclass(frozen=True)
class TemperatureSamples:
    """Hourly temperatures at six places. Every run generates the same bytes.

    Times are in UTC, temperatures in degrees Celsius with one decimal. ``seed`` selects other weather.
    """

    seed: int = 0

    def write_base(self, folder: Path) -> None:
        """Write 24 files in the format of the Open-Meteo archive, one for each year (2019-2022) and place.

        They hold 35,064 hours for each place, 210,384 in total, without missing values. Creates the folder. A second
        run writes the same bytes.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for year in _BASE_YEARS:
            for place in _PLACES:
                text = json.dumps(self._archive(place, year), ensure_ascii=False, separators=(",", ":"))
                (folder / f"{year}_{place.file}_Temps.json").write_text(text, encoding="utf-8")

    def stream(self) -> Iterator[bytes]:
        """Yield 26,064 records, hour by hour, from 2023-01-01 to 2023-06-30. None has the key of a base row.

        The last 96 records of one place have no ``temperature_2m``, as if its sensor failed.
        """
        first, end = _STREAM_DATES
        hours = [self._temperatures(place, first.year) for place in _PLACES]
        for number, time in enumerate(_times(first, end)):
            for place, temperatures in zip(_PLACES, hours, strict=True):
                is_silent = place.file == _SILENT_PLACE and time >= _SILENT_FROM
                yield _record(place, time, None if is_silent else temperatures[number])

    def update(self) -> Iterator[bytes]:
        """Yield 8,770 records of one place: 8,760 change the value of a base row, 10 are new records of 2009."""
        place = next(place for place in _PLACES if place.file == _CORRECTED_PLACE)
        for time, temperature in zip(*self._year(place, _CORRECTED_YEAR), strict=True):
            yield _record(place, time, _tenths(temperature + _CORRECTION))
        times, temperatures = self._year(place, _EARLY_YEAR)
        for number in range(_EARLY_HOURS):
            yield _record(place, times[number], temperatures[number])

    def locations(self) -> Iterator[bytes]:
        """Yield one JSON line for each place: latitude, longitude, elevation in metres, name."""
        for place in _PLACES:
            yield _line(
                {
                    "latitude": place.latitude,
                    "longitude": place.longitude,
                    "elevation": place.elevation,
                    "name": place.name,
                }
            )

    def _archive(self, place: _Place, year: int) -> dict[str, Any]:
        times, temperatures = self._year(place, year)
        return {
            "latitude": place.latitude,
            "longitude": place.longitude,
            "generationtime_ms": 0.5,
            "utc_offset_seconds": 0,
            "timezone": "GMT",
            "timezone_abbreviation": "GMT",
            "elevation": place.elevation,
            "hourly_units": {"time": "iso8601", "temperature_2m": "°C"},
            "hourly": {"time": times, "temperature_2m": temperatures},
        }

    def _year(self, place: _Place, year: int) -> tuple[list[str], list[float]]:
        return list(_times(date(year, 1, 1), date(year + 1, 1, 1))), self._temperatures(place, year)

    def _temperatures(self, place: _Place, year: int) -> list[float]:
        """Temperatures of every hour of a year: the season, the daily curve, spells of several days, and noise."""
        noise = random.Random(f"{self.seed} {place.file} {year}")  # noqa: S311 - weather, not secrets
        curve = _day_curve(place)
        temperatures = []
        spell = 0.0
        for day in range((date(year + 1, 1, 1) - date(year, 1, 1)).days):
            spell = 0.8 * spell + 5 * (noise.random() - 0.5)
            level = place.mean + spell - place.season * math.cos(math.tau * (day - _COLDEST_DAY) / 365.25)
            temperatures += [_tenths(level + difference + noise.random() - 0.5) for difference in curve]
        return temperatures


def _day_curve(place: _Place) -> Sequence[float]:
    """The difference between the temperature of each UTC hour and the mean of the day."""
    warmest_hour = _WARMEST_HOUR - place.longitude / 15
    return [place.day * math.cos(math.tau * (hour - warmest_hour) / 24) for hour in range(24)]


def _times(first: date, end: date) -> Iterator[str]:
    for number in range((end - first).days):
        day = first + timedelta(days=number)
        yield from (f"{day}T{hour:02}:00" for hour in range(24))


def _tenths(temperature: float) -> float:
    return round(temperature, 1) + 0.0  # never -0.0


def _record(place: _Place, time: str, temperature: float | None) -> bytes:
    reading = {} if temperature is None else {"temperature_2m": temperature}
    return _line({"latitude": place.latitude, "longitude": place.longitude, "time": time} | reading)


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@dataclass(frozen=True)
class MovieRatingSamples:
    """Ratings up to the beginning of a day in UTC. Every run on that day generates the same bytes.

    The table rejects records five days after their event, so the ratings are dated relative to ``today``; the default
    is the current date. ``seed`` selects other ratings.
    """

    seed: int = 0
    today: date | None = None

    @property
    def schemas(self) -> Mapping[str, str]:
        """The Avro schemas: the first version for the new records, the second version for their changes."""
        return {"stream": _schema(_BASE_FIELDS), "update": _schema([*_BASE_FIELDS, _DEVICE_FIELD])}

    def stream(self) -> Iterator[bytes]:
        """Yield 1,090 records: 1,000 events of two days, 40 of them twice, and 50 older events, which are late."""
        for number, event in enumerate(self._events()):
            yield _rating_line(event)
            if number % _DUPLICATE_INTERVAL == 0:
                yield _rating_line(event)
            if number % _LATE_INTERVAL == 0:
                days = 10 + number // _LATE_INTERVAL
                late_timestamp = event["rating_timestamp"] - days * _DAY_SECONDS
                yield _rating_line({**event, "event_id": _event_id("late", number), "rating_timestamp": late_timestamp})

    def update(self) -> Iterator[bytes]:
        """Yield 250 records with a device: 200 events with a changed rating, 20 of them a day earlier, and 50 new."""
        generator = random.Random(f"update {self.seed}")  # noqa: S311 - ratings, not secrets
        events = self._events()
        for number in range(_CORRECTED_COUNT):
            event = events[number]
            timestamp = event["rating_timestamp"] - (_DAY_SECONDS if number < _MOVED_COUNT else 0)
            changes = {"rating": (event["rating"] + 1) % 10, "rating_timestamp": timestamp}
            yield _rating_line({**event, **changes, "device": generator.choice(_DEVICES)})
        for number in range(_NEW_COUNT):
            event = self._event(generator, f"new {number}")
            yield _rating_line({**event, "device": generator.choice(_DEVICES)})

    def _events(self) -> list[dict[str, Any]]:
        generator = random.Random(f"stream {self.seed}")  # noqa: S311 - ratings, not secrets
        return [self._event(generator, f"event {number}") for number in range(_RATING_COUNT)]

    def _event(self, generator: random.Random, name: str) -> dict[str, Any]:
        today = self.today or datetime.now(UTC).date()
        end = datetime(today.year, today.month, today.day, tzinfo=UTC)
        age = timedelta(seconds=generator.randrange(_EVENT_DAYS * _DAY_SECONDS))
        return {
            "event_id": _event_id(name, self.seed),
            "user_id": f"user-{generator.randrange(_USER_COUNT):03}",
            "movie_id": f"movie-{generator.randrange(_MOVIE_COUNT):03}",
            "rating": generator.randrange(21) / 2,
            "rating_timestamp": int((end - age).timestamp()),
        }


def _event_id(name: str, number: int) -> str:
    generator = random.Random(f"{name} {number}")  # noqa: S311 - ratings, not secrets
    return str(UUID(int=generator.getrandbits(128), version=4))


def _rating_line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _schema(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "MovieRating", "namespace": "movies", "fields": fields})
