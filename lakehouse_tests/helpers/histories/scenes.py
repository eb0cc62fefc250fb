"""What is merged where processes die, at which points, and all that the tables tell afterwards."""

import json
import random
from collections import Counter
from typing import Any

from lakehouse.decoding.formats.framing import framed
from lakehouse.ledger.audit import audit
from lakehouse.query import table_names
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.worker import Job, Point
from lakehouse_tests.helpers.brokers.registries import body
from lakehouse_tests.helpers.brokers.streams import ABSENT, hour, record
from lakehouse_tests.helpers.histories.avro_histories import AS_TEXT
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import Tables

WITH_STATION = {**AS_TEXT, "fields": [{"name": "station", "type": "string", "default": "north"}, *AS_TEXT["fields"]]}


def write(when: str, suffix: str = "", nth: int = 0, **more: Any) -> Point:
    return Point("write", when, nth, suffix, **more)


def records(drawn: random.Random, many: int) -> list[bytes | None]:
    """Rows, updates, duplicates and records that may not enter, in any order."""
    values: list[bytes | None] = [b"{", None, record(time=hour(3), temperature_2m=80.0), record(temperature_2m=90.0)]
    for _ in range(many):
        kept = drawn.choice([ABSENT, None, *(round(drawn.uniform(-20, 40), 1) for _ in range(6))])
        values.append(record(time=hour(drawn.choice([*range(6), 800])), temperature_2m=kept))
    drawn.shuffle(values)
    return values


def as_avro(ids: tuple[int, int], values: list[bytes | None]) -> list[bytes | None]:
    """The same records by turns of two schemas; what is spoiled is spoiled there too."""
    schemas = (AS_TEXT, WITH_STATION)
    written = list[bytes | None]()
    for number, value in enumerate(values):
        schema_id = ids[number % 2]
        told = body(schemas[number % 2], json.loads(value)) if value and value.endswith(b"}") else b"\x00"
        written.append(None if value is None else framed(schema_id, told))
    return written


def told(settings: Settings, job: Job) -> Any:
    """All that a reader of the tables can see, but for the numbers of commits; the accounting holds."""
    tables = Tables(settings, job.table)
    ledger = tables.ledger()
    assert not [finding for finding in audit(ledger) if not finding.passed]
    names = [name.removeprefix(job.name) for name in table_names(settings) if name.startswith(job.name)]
    every = (ledger.totals, names, tables.rejected(ledger))
    if job.table.is_log:
        by_day = Counter(tuple(sorted(row.items())) for row in rows_of(settings, job.table.rollups[0].name))
        return *every, Counter(map(_logged, rows_of(settings, job.name))), by_day
    changes = Counter((*change[:3], *change[4:]) for change in tables.changes())
    return *every, tables.merged(), changes, tables.rollup()


def _logged(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of a log table, and the record that it is."""
    return (*(row["_record"][name] for name in ("partition", "position", "time")), hour_of(row), row["temperature_2m"])
