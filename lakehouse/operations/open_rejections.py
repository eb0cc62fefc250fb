"""How many rejected records are still out, and how many passed since; without a JVM."""

from contextlib import suppress
from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.ingest.unresolved_rejections import is_open, unresolved
from lakehouse.ledger.active_files import holds_files
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings


@dataclass(frozen=True)
class Counted:
    """How many of the stored records are still out, and how many passed since; those that are pending are neither."""

    open: int
    resolved: int


def count_rejected(settings: Settings, table: StreamTable, merged: Ledger) -> Counted | None:
    """Count the rejected records, without a JVM; ``None`` where their rows cannot be read.

    Another version of lakehouse wrote the table then, or it has features of Delta that only Spark reads: a figure
    beside what was merged stops nobody. ``merged`` is the ledger of the merged table. No bytes of a record are read.
    """
    uri = settings.table_uri(table.rejected_name)
    stored = open_table(uri)
    if stored is None or not holds_files(uri):
        return Counted(0, 0)
    import duckdb  # noqa: PLC0415 - a table without rejected records needs none

    with suppress(LakehouseError), log_failures(uri):
        ledger_of(settings, table.rejected_name)
        rows = stored.to_pyarrow_table(columns=["position", "resolved_number", "resolved_table_id"])
        out, passed = unresolved(merged, quoted_text), f"NOT {is_open('', merged, quoted_text)}"
        with duckdb.connect(":memory:") as connection:
            connection.register("stored", rows)
            counted = f"SELECT count(*) FILTER (WHERE {out}), count(*) FILTER (WHERE {passed}) FROM stored"
            ((still, since),) = connection.execute(counted).fetchall()
            return Counted(still, since)
    return None


def quoted_text(text: str) -> str:
    """Text in DuckDB's SQL, in which a backslash is itself."""
    return "'" + text.replace("'", "''") + "'"
