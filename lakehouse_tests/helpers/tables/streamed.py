"""Tables of generated records, and streams of Spark that read them as a user's own session does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.declaration import Column, Generated, StreamTable
from lakehouse.declaration.sources import Counter
from lakehouse.derived.refresh import refresh_changes
from lakehouse.ingest.batches import merge_all
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

CHANGE_DATA = {"readChangeFeed": "true"}
SKIP = {"skipChangeCommits": "true"}
AVAILABLE_NOW: dict[str, Any] = {"availableNow": True}
_COLUMNS = [
    Column("hash", "BIGINT", "Hash.", required=True),
    Column("value", "BIGINT", "Number of the record.", required=True),
]


@dataclass
class Lake:
    """A folder with tables, and with the tables that streams write."""

    spark: SparkSession
    settings: Settings

    def table(self, key: list[str], count: int, columns: list[Column] = _COLUMNS) -> StreamTable:
        """Of five hashes, a table with the newest value of each, or a log of all records; ``count`` of them exist."""
        return StreamTable(
            name="hashes" if key else "log",
            doc="Hashes.",
            columns=columns,
            key=key,
            version="value" if key else None,
            source=Generated(
                rate=10,
                partitions=2,
                fields={"hash": Counter(modulo=5), "value": Counter()},
                since=datetime(2026, 1, 1, tzinfo=UTC),
                count=count,
            ),
        )

    def merge_into_log(self, count: int, *columns: Column) -> TableContext:
        """Merge the first records into the log table, up to that count."""
        context = TableContext(self.spark, self.settings, self.table([], count, [*_COLUMNS, *columns]))
        merge_all(context)
        return context

    def merge_by_key(self, count: int, *columns: Column) -> TableContext:
        """Merge the first records into the table with a key, up to that count, and update its change feed."""
        context = TableContext(self.spark, self.settings, self.table(["hash"], count, [*_COLUMNS, *columns]))
        merge_all(context)
        refresh_changes(context)
        return context

    def run(self, statement: str, name: str) -> None:
        """Run a statement of another program; ``TABLE`` is the table of that name."""
        self.spark.sql(statement.replace("TABLE", f"delta.`{self.settings.table_uri(name)}`")).collect()

    def vacuum(self, name: str) -> None:
        """Remove all files that the newest version does not need, as after the retention."""
        check = "spark.databricks.delta.retentionDurationCheck.enabled"
        before = self.spark.conf.get(check, None)
        self.spark.conf.set(check, "false")
        try:
            self.run("VACUUM TABLE RETAIN 0 HOURS", name)
        finally:
            self.spark.conf.unset(check) if before is None else self.spark.conf.set(check, before)

    def stream(self, name: str, query: str = "copy", options: Mapping[str, str] = {}, **changes: Any) -> "Stream":
        """Return a stream of a table, with the checkpoint of the query of that name."""
        return Stream(self, name, Path(self.settings.home) / query, options, **changes)


@dataclass
class Stream:
    """A stream of the rows of a table into another one, with a checkpoint."""

    lake: Lake
    name: str
    folder: Path
    options: Mapping[str, str]
    mode: str = "append"
    transform: Callable[[DataFrame], DataFrame] = lambda rows: rows

    def start(self, trigger: Mapping[str, Any] = AVAILABLE_NOW) -> Any:
        """Start the query in a session of its own, as a user's program does; return it."""
        session = self.lake.spark.newSession()
        reader = session.readStream.format("delta").options(**self.options)
        rows = self.transform(reader.load(self.lake.settings.table_uri(self.name)))
        writer = rows.writeStream.format("delta").outputMode(self.mode).trigger(**trigger)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start(str(self.folder / "rows"))

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """Read everything that is available, and return all rows that the stream has written, sorted."""
        self.start().awaitTermination()
        return self.written_rows(*names)

    def written_rows(self, *names: str) -> list[tuple[Any, ...]]:
        """Return all rows that the stream has written, sorted; none before its first batch."""
        if not (self.folder / "rows" / "_delta_log" / f"{0:020}.json").exists():
            return []
        frame = self.lake.spark.read.format("delta").load(str(self.folder / "rows"))
        return sorted(map(tuple, frame.selectExpr(*names).collect()))
