"""Sample movie ratings of the last two days: some repeated, some too late, and then corrections."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
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
            yield _line(event)
            if number % _DUPLICATE_INTERVAL == 0:
                yield _line(event)
            if number % _LATE_INTERVAL == 0:
                days = 10 + number // _LATE_INTERVAL
                late_timestamp = event["rating_timestamp"] - days * _DAY_SECONDS
                yield _line({**event, "event_id": _event_id("late", number), "rating_timestamp": late_timestamp})

    def update(self) -> Iterator[bytes]:
        """Yield 250 records with a device: 200 events with a changed rating, 20 of them a day earlier, and 50 new."""
        generator = random.Random(f"update {self.seed}")  # noqa: S311 - ratings, not secrets
        events = self._events()
        for number in range(_CORRECTED_COUNT):
            event = events[number]
            timestamp = event["rating_timestamp"] - (_DAY_SECONDS if number < _MOVED_COUNT else 0)
            changes = {"rating": (event["rating"] + 1) % 10, "rating_timestamp": timestamp}
            yield _line({**event, **changes, "device": generator.choice(_DEVICES)})
        for number in range(_NEW_COUNT):
            event = self._event(generator, f"new {number}")
            yield _line({**event, "device": generator.choice(_DEVICES)})

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


def _line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _schema(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "MovieRating", "namespace": "movies", "fields": fields})
