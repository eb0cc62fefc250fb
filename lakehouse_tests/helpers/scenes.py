"""What is merged where processes die, at which points, and all that the tables tell afterwards."""

import random
from collections import Counter
from typing import Any

from lakehouse.delta.audit import audit
from lakehouse.serve import table_names
from lakehouse.settings import Settings
from lakehouse_tests.helpers.streams import ABSENT, hour, record
from lakehouse_tests.helpers.tables import Tables
from lakehouse_tests.helpers.worker import Job, Point


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


def told(settings: Settings, job: Job) -> Any:
    """All that a reader of the tables can see, but for the numbers of commits; the accounting holds."""
    tables = Tables(settings, job.table)
    ledger = tables.ledger()
    assert not [finding for finding in audit(ledger) if not finding.passed]
    names = [name.removeprefix(job.name) for name in table_names(settings) if name.startswith(job.name)]
    changes = Counter((*change[:3], *change[4:]) for change in tables.changes())
    return ledger.totals, names, tables.merged(), tables.rejected(ledger), changes, tables.rollup()
