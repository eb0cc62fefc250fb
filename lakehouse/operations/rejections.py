"""The unresolved rejected records by reason, and the reasons of one run, without a JVM."""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lakehouse.declaration import StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.ingest.rejections import find_lost_rejections, quoted_text, unresolved_sql
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.query import query
from lakehouse.settings import Settings
from lakehouse.storage.table_context import whole_ledger

_LENGTH = 200  # characters of a detail, bytes of a value
_MOST_ROWS = 1_000  # rows that are searched for one sample of each reason
_ROWS_AT_ONCE = 50  # a record may have megabytes


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


@dataclass(frozen=True)
class SampledReason:
    """A reason, the number of records with it, and the beginning of the detail and of the value of one of them."""

    reason: str
    count: int
    detail: str
    value: str


def sample_reasons(settings: Settings, table: StreamTable, numbers: Collection[int]) -> list[SampledReason]:
    """Return the reasons of the records that the batches with these numbers rejected, the most frequent first.

    Empty if the rows cannot be read: another version of lakehouse wrote them, or they have features that only Spark
    reads.
    """
    uri = settings.table_uri(table.rejected_name)
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and a run without rejected records needs none

    with suppress(LakehouseError), log_failures(uri):
        rejected_table = open_table(uri)
        if rejected_table is None:
            return []
        rows, of_run = rejected_table.to_pyarrow_dataset(), pc.field("number").isin(list(numbers))
        counts = Counter(rows.to_table(columns=["reason"], filter=of_run)["reason"].to_pylist())
        columns = {
            "reason": pc.field("reason"),
            "detail": pc.utf8_slice_codeunits(pc.field("detail"), 0, _LENGTH),
            "value": pc.binary_slice(pc.field("value"), 0, _LENGTH),
        }
        sampled_rows = (
            rows.scanner(columns=columns, filter=of_run, batch_size=_ROWS_AT_ONCE).head(_MOST_ROWS).to_pylist()
        )
        samples = {row["reason"]: row for row in reversed(sampled_rows)}
        return [_make_sample(reason, count, samples.get(reason, {})) for reason, count in counts.most_common()]
    return []


def _make_sample(reason: str, count: int, row: dict[str, str | bytes | None]) -> SampledReason:
    value = row.get("value") or b""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return SampledReason(reason, count, str(row.get("detail") or ""), text)
