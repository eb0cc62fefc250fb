"""The records and points of tests in which processes die, and the state of the tables afterwards."""

import json
import random
from collections import Counter
from itertools import groupby
from typing import Any

from lakehouse.decoding.formats.framing import add_frame
from lakehouse.ledger.audit import audit
from lakehouse.query import table_names
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.worker import Job, Point
from lakehouse_tests.helpers.brokers.registries import body
from lakehouse_tests.helpers.brokers.streams import ABSENT, delete, hour, record
from lakehouse_tests.helpers.histories.avro_histories import AS_TEXT
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import Tables

_ADDED_FIELDS = [{"name": name, "type": "string", "default": "north"} for name in ("station", "operation")]
WITH_STATION = {**AS_TEXT, "fields": [*_ADDED_FIELDS, *AS_TEXT["fields"]]}
_ROWS_OF_A_RECORD = 3
REDRIVEN_HOUR = hour(9)  # its only records are rejected until they are redriven, so a redrive writes a row
DELETED_HOURS = hour(7), hour(8)  # no record is newer than their deletes


def write(when: str, suffix: str = "", nth: int = 0, **fields: Any) -> Point:
    return Point("write", when, nth, suffix, **fields)


def records(rng: random.Random, count: int) -> list[bytes | None]:
    """Return new rows, updates, deletes, duplicates and rejected records, in random order; then two hours' deletes.

    The rows of these hours are in the random part. One of them is rejected until it is redriven.
    """
    values: list[bytes | None] = [
        b"{",
        None,
        record(time=REDRIVEN_HOUR, temperature_2m=80.0),
        record(temperature_2m=90.0),
    ]
    for _ in range(count):
        temperature = rng.choice([ABSENT, None, *(round(rng.uniform(-20, 40), 1) for _ in range(6))])
        values.append(record(time=hour(rng.choice([*range(6), 800])), temperature_2m=temperature))
    values += [delete(hour(rng.choice(range(6)))) for _ in range(2)]
    values += [record(time=DELETED_HOURS[0], temperature_2m=80.0), record(time=DELETED_HOURS[1])]
    rng.shuffle(values)
    return [*values, *map(delete, DELETED_HOURS)]


def as_avro(ids: tuple[int, int], values: list[bytes | None]) -> list[bytes | None]:
    """Encode the records in two alternating Avro schemas, deletes in the second; invalid records stay invalid."""
    schemas = (AS_TEXT, WITH_STATION)
    framed_records = list[bytes | None]()
    for number, value in enumerate(values):
        index = 1 if value and b"operation" in value else number % 2
        schema_id = ids[index]
        avro_body = body(schemas[index], json.loads(value)) if value and value.endswith(b"}") else b"\x00"
        framed_records.append(None if value is None else add_frame(schema_id, avro_body))
    return framed_records


def in_arrays(values: list[bytes | None]) -> list[bytes | None]:
    """Put valid records that follow each other into arrays of three rows, each followed by a record of another type."""
    packed = list[bytes | None]()
    for is_valid, group in groupby(values, lambda value: bool(value and value.endswith(b"}"))):
        members = list(group)
        if not is_valid:
            packed += members
            continue
        for start in range(0, len(members), _ROWS_OF_A_RECORD):
            array = b",".join(filter(None, members[start : start + _ROWS_OF_A_RECORD]))
            packed += [b'{"type": "weather", "readings": [' + array + b"]}", b'{"type": "other"}']
    return packed


def read_state(settings: Settings, job: Job) -> Any:
    """Check the accounting and return all that readers of the tables can see, except the commit numbers."""
    tables = Tables(settings, job.table)
    ledger = tables.ledger()
    assert not [finding for finding in audit(ledger) if not finding.passed]
    names = [name.removeprefix(job.name) for name in table_names(settings) if name.startswith(job.name)]
    common = (ledger.totals, names, tables.rejected(ledger))
    if job.table.is_log:
        by_day = Counter(tuple(sorted(row.items())) for row in rows_of(settings, job.table.rollups[0].name))
        return *common, Counter(map(_log_row, rows_of(settings, job.name))), by_day
    changes = Counter((*change[:3], *change[4:]) for change in tables.changes())
    return *common, tables.merged(), changes, tables.rollup(), tables.deletes()


def _log_row(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return a row of a log table with the position and time of its record."""
    return (*(row["_record"][name] for name in ("partition", "position", "time")), hour_of(row), row["temperature_2m"])
