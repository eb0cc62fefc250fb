"""Sample ratings of movies: of the last two days, some told twice, some too late, then corrections."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

_RATINGS, _USERS, _MOVIES = 1_000, 60, 40
_DAYS, _DAY = 2, 86_400  # of the events, before today: with a day that some are moved, none is late for it
_EVERY_TOLD_TWICE, _EVERY_LATE = 25, 20
_CORRECTED, _MOVED, _NEW = 200, 20, 50
_DEVICES = ("phone", "browser", "television")
_FIELDS: list[dict[str, Any]] = [
    {"name": "event_id", "type": "string"},
    {"name": "user_id", "type": "string"},
    {"name": "movie_id", "type": "string"},
    {"name": "rating", "type": "float", "doc": "From 0 to 10."},
    {"name": "rating_timestamp", "type": "long", "doc": "Seconds since 1970, UTC."},
]
_DEVICE = {"name": "device", "type": ["null", "string"], "default": None}


@dataclass(frozen=True)
class MovieRatingSamples:
    """Ratings that end with the beginning of a day, UTC: the same bytes in every run of that day.

    Records are refused five days after their event, so they are dated by the day on which they are made: ``today``,
    where nobody names another. ``seed`` chooses other ratings.
    """

    seed: int = 0
    today: date | None = None

    @property
    def schemas(self) -> Mapping[str, str]:
        """The first version of the schema, by which new records are written, and the second one, for their changes."""
        return {"stream": _schema(_FIELDS), "update": _schema([*_FIELDS, _DEVICE])}

    def stream(self) -> Iterator[bytes]:
        """Yield 1,090 records: 1,000 events of two days, 40 of them twice, and 50 of longer ago, which are late."""
        for number, event in enumerate(self._events()):
            yield _line(event)
            if number % _EVERY_TOLD_TWICE == 0:
                yield _line(event)
            if number % _EVERY_LATE == 0:
                days = 10 + number // _EVERY_LATE
                long_ago = event["rating_timestamp"] - days * _DAY
                yield _line({**event, "event_id": _identity("late", number), "rating_timestamp": long_ago})

    def update(self) -> Iterator[bytes]:
        """Yield 250 records with a device: 200 events with another rating, 20 of them a day earlier; 50 are new."""
        chance = random.Random(f"update {self.seed}")  # noqa: S311 - ratings, not secrets
        events = self._events()
        for number in range(_CORRECTED):
            event = events[number]
            moved = event["rating_timestamp"] - (_DAY if number < _MOVED else 0)
            rating = (event["rating"] + 1) % 10
            yield _line({**event, "rating": rating, "rating_timestamp": moved, "device": chance.choice(_DEVICES)})
        for number in range(_NEW):
            event = self._event(chance, f"new {number}")
            yield _line({**event, "device": chance.choice(_DEVICES)})

    def _events(self) -> list[dict[str, Any]]:
        chance = random.Random(f"stream {self.seed}")  # noqa: S311 - ratings, not secrets
        return [self._event(chance, f"event {number}") for number in range(_RATINGS)]

    def _event(self, chance: random.Random, name: str) -> dict[str, Any]:
        today = self.today or datetime.now(UTC).date()
        end = datetime(today.year, today.month, today.day, tzinfo=UTC)
        ago = timedelta(seconds=chance.randrange(_DAYS * _DAY))
        return {
            "event_id": _identity(name, self.seed),
            "user_id": f"user-{chance.randrange(_USERS):03}",
            "movie_id": f"movie-{chance.randrange(_MOVIES):03}",
            "rating": chance.randrange(21) / 2,
            "rating_timestamp": int((end - ago).timestamp()),
        }


def _identity(name: str, number: int) -> str:
    chance = random.Random(f"{name} {number}")  # noqa: S311 - as above
    return str(UUID(int=chance.getrandbits(128), version=4))


def _line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _schema(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "MovieRating", "namespace": "movies", "fields": fields})
