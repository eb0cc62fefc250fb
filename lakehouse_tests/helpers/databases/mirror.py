"""A database, the connector that reads it, and the table that must equal it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.operations.compare import Comparison, Source, compare
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.databases import workload
from lakehouse_tests.helpers.databases.connect import Connect, connector_of
from lakehouse_tests.helpers.databases.encodings import JSON, Encoding
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.waiting import wait_until


class Mirror:
    """A database with one table, and the table that follows it."""

    def __init__(
        self, spark: SparkSession, broker: Settings, server: Postgres, folder: Path, encoding: Encoding = JSON
    ) -> None:
        self.server, self.database, self.encoding = server, f"shop_{uuid4().hex[:8]}", encoding
        table = workload.declaration(self.database, encoding.form, encoding.columns)
        self.stream = Stream.of(spark, broker, table)
        connector = connector_of(server, self.database, "public.items") | dict(encoding.connector)
        self.connect = Connect(broker, folder, connector)

    def run(self, transactions: Iterator[list[str]]) -> None:
        with self.server.connect(self.database) as connection:
            for statements in transactions:
                with connection.transaction():
                    for statement in statements:
                        connection.execute(statement.encode())

    def rows(self) -> dict[Any, dict[str, Any]]:
        names = ["shop", "id", *(column.column.name for column in self.encoding.columns)]
        rows = [row.asDict() for row in self.stream.context.merged.rows().select(*names).collect()]
        return {(row["shop"], row["id"]): {n: workload.comparable(v) for n, v in row.items()} for row in rows}

    def difference(self) -> str:
        expected_rows = workload.rows_of_database(self.server, self.database, self.encoding.columns)
        return workload.differences(expected_rows, self.rows())

    def becomes_equal(self, limit: float = 60.0) -> bool:
        """Merge until the table equals the database; return whether it does."""

        def is_equal() -> bool:
            return bool(self.stream.merge() or True) and not self.difference()

        return wait_until(is_equal, limit)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/{self.database}"

    def compare(self, wait: float = 0.0) -> Comparison:
        """Compare the table with the database as ``lakehouse compare`` does."""
        return compare(self.stream.settings, self.stream.table, Source(self.url, "public.items"), wait)
