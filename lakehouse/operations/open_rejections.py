"""Count the unresolved and the resolved rejected records, without a JVM."""

from contextlib import suppress
from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.ingest.kept_rejections import find_lost_rejections
from lakehouse.ingest.unresolved_rejections import open_sql, unresolved_sql
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.versions import holds_files
from lakehouse.settings import Settings


@dataclass(frozen=True)
class RejectionCounts:
    """How many stored rejected records are open, and how many are resolved. Pending records are neither."""

    open: int
    resolved: int


def count_rejected(settings: Settings, table: StreamTable, merged: Ledger) -> RejectionCounts | None:
    """Count the rejected records, without a JVM; ``None`` if their rows cannot be read.

    In that case, another version of lakehouse wrote the table, it has Delta features that only Spark reads, or some are
    lost.
    This is not an error, because the counts only accompany other figures. ``merged`` is the ledger of the merged table.
    The function does not read the bytes of the records.
    """
    uri = settings.table_uri(table.rejected_name)
    rejected_table = open_table(uri)
    if find_lost_rejections(settings, table, merged):
        return None
    if rejected_table is None or not holds_files(uri):
        return RejectionCounts(0, 0)
    import duckdb  # noqa: PLC0415 - a table without rejected records does not need it

    with suppress(LakehouseError), log_failures(uri):
        ledger_of(settings, table.rejected_name)
        rows = rejected_table.to_pyarrow_table(columns=["position", "resolved_number", "resolved_table_id"])
        is_unresolved, is_resolved = unresolved_sql(merged, quoted_text), f"NOT {open_sql('', merged, quoted_text)}"
        with duckdb.connect(":memory:") as connection:
            connection.register("stored", rows)
            counts = f"count(*) FILTER (WHERE {is_unresolved}), count(*) FILTER (WHERE {is_resolved})"
            ((open_count, resolved_count),) = connection.execute(f"SELECT {counts} FROM stored").fetchall()
            return RejectionCounts(open_count, resolved_count)
    return None


def quoted_text(text: str) -> str:
    """A text literal in DuckDB's SQL, which has no escapes with a backslash."""
    return "'" + text.replace("'", "''") + "'"
