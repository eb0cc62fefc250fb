"""Random histories of another table: its rows change in every way, and its reader dies, replays and loses changes."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Deletes, FieldIs, StreamTable, TableRows
from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings
from lakehouse.storage.statement import session_settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import accept_gap
from lakehouse_tests.helpers.histories.file_histories import RunDiedError

IDS = st.integers(0, 9)


def table_of(uri: str) -> StreamTable:
    """Return the table that reads another one; a batch has few rows."""
    return StreamTable(
        name="balances",
        doc="Balances.",
        columns=[Column("id", "INT", "Account.", required=True), Column("amount", "INT", "Amount.")],
        key=["id"],
        source=TableRows(uri, former_rows=True),
        max_records=4,
        deletes=Deletes(
            when=FieldIs("_change_type", ["delete", "former"]), truncates=FieldIs("_change_type", ["truncate"])
        ),
    )


class TableHistories(RuleBasedStateMachine):
    """One new table and its reader; a subclass sets ``spark``, ``make_folder`` and ``on_step``."""

    spark: SparkSession
    make_folder: Callable[[], Path]
    on_step: Callable[[], None]

    @initialize()
    def begin(self) -> None:
        home = type(self).make_folder()
        self.uri, self.settings = str(home / "accounts"), Settings(home=home / "home", _env_file=None)
        self.table, self.may_lose = table_of(self.uri), False
        self.run(
            "CREATE TABLE T (id INT, amount INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        self.run("INSERT INTO T SELECT id, id FROM range(6)")

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    def run(self, statement: str) -> None:
        self.spark.sql(statement.replace(" T ", f" delta.`{self.uri}` ")).collect()

    @rule(first=IDS, amount=st.integers(0, 99))
    def upsert(self, first: int, amount: int) -> None:
        self.run(
            f"MERGE INTO T t USING (SELECT CAST(id AS INT) AS id FROM range({first}, {first + 3})) s ON s.id = t.id"
            f" WHEN MATCHED THEN UPDATE SET amount = {amount}"
            f" WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, {amount})"
        )

    @rule(first=IDS)
    def delete(self, first: int) -> None:
        self.run(f"DELETE FROM T WHERE id BETWEEN {first} AND {first + 2}")

    @rule(shift=st.integers(1, 5))
    def change_keys(self, shift: int) -> None:
        self.run(f"UPDATE T SET id = id + {shift} WHERE true")

    @rule(count=st.integers(0, 4))
    def overwrite(self, count: int) -> None:
        self.run(f"INSERT OVERWRITE T SELECT CAST(id AS INT), 7 FROM range({count})")

    @rule()
    def vacuum(self) -> None:
        """Delete the files that the newest version does not need."""
        self.run("OPTIMIZE T ")
        with session_settings(self.spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
            self.run("VACUUM T RETAIN 0 HOURS")
        self.may_lose = True

    @rule(batches=st.integers(1, 2))
    def merge_and_die(self, batches: int) -> None:
        merged_batches: list[Outcome] = []

        def die_after(outcome: Outcome) -> None:
            merged_batches.append(outcome)
            if len(merged_batches) >= batches:
                raise RunDiedError

        try:
            merge_all(self.context, on_batch=die_after)
        except RunDiedError:
            pass
        except DataLossError:
            assert self.may_lose

    @rule()
    def merge(self) -> None:
        """Merge everything, accept what was lost, and compare all rows."""
        try:
            merge_all(self.context)
        except DataLossError:
            assert self.may_lose
            accept_gap(self.context)
            merge_all(self.context)
        self.may_lose = False
        assert merge_all(self.context) == []
        source_rows = self.spark.read.format("delta").load(self.uri).collect()
        merged_rows = self.context.merged.rows().select("id", "amount").collect()
        assert sorted(map(tuple, merged_rows)) == sorted(map(tuple, source_rows))

    @invariant()
    def ledger_is_accounted(self) -> None:
        if hasattr(self, "settings"):
            assert all(finding.passed for finding in audit(ledger_of(self.settings, self.table.name)))
            type(self).on_step()
