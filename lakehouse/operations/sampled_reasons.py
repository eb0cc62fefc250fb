"""The reasons why a run rejected records, with the beginning of one record each, without a JVM.

This accompanies the result of a run. It reads only rows of the run's batches, and never fails a run.
"""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings

_LENGTH = 200  # characters of a detail, bytes of a value
_MOST_ROWS = 1_000  # rows that are searched for one sample of each reason
_ROWS_AT_ONCE = 50  # a record may have megabytes


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
