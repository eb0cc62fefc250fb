"""The unresolved rejected records, by reason, without a JVM."""

from dataclasses import dataclass
from datetime import datetime

from lakehouse.declaration import StreamTable
from lakehouse.ingest.kept_rejections import find_lost_rejections
from lakehouse.ingest.rejected_records import unresolved_sql
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.operations.open_rejections import quoted_text
from lakehouse.query import query
from lakehouse.settings import Settings
from lakehouse.storage.table_context import whole_ledger


@dataclass(frozen=True)
class Sample:
    """One rejected record; ``key`` and ``value`` are its original bytes, ``None`` if it has none.

    ``time`` is ``None`` if it is outside the range of a timestamp (``detail`` then has it), and a text before year 1
    and after year 9999. ``index`` is the place of a rejected element in its record; only one of them has the bytes.
    """

    source: str
    partition: int
    position: int
    time: datetime | str | None
    key: bytes | None
    value: bytes | None
    detail: str
    index: int | None = None


@dataclass(frozen=True)
class Reason:
    """The rejected records with one reason: their number and the newest of them."""

    reason: str
    count: int
    samples: tuple[Sample, ...]


def list_rejected(settings: Settings, table: StreamTable, reason: str | None = None, limit: int = 3) -> list[Reason]:
    """List the rejected records by reason, the most frequent first, with ``limit`` samples each, without a JVM.

    Leaves out resolved and pending records. Raises ``LedgerError`` if stored ones are lost.
    """
    ledger, name = whole_ledger(settings, table), table.rejected_name
    error = find_lost_rejections(settings, table, ledger)
    if error:
        raise error
    if open_table(settings.table_uri(name)) is None:
        return []
    ledger_of(settings, name)
    reason_filter = f"reason = {quoted_text(reason)} AND " if reason is not None else ""
    index = ", 'index': position.index" if table.has_elements else ""
    sample = (
        "{'source': position.source, 'partition': position.partition, 'position': position.position,"
        " 'time': time, 'key': key, 'value': value, 'detail': detail"
        f"{index}}}"
    )
    newest = "{'time': time, 'partition': position.partition, 'position': position.position"
    newest += ", 'index': -coalesce(position.index, 0)}" if table.has_elements else "}"  # the first one has the bytes
    result = query(
        settings,
        f"SELECT reason, count(*), max_by({sample}, {newest}, {max(1, limit)}) FROM {name}"
        f" WHERE {reason_filter}{unresolved_sql(ledger, quoted_text)} GROUP BY reason ORDER BY 2 DESC, 1",
        [name],
    )
    return [
        Reason(reason_name, count, tuple(Sample(**fields) for fields in samples[:limit]))
        for reason_name, count, samples in result.rows
    ]
