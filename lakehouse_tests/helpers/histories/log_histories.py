"""Random histories of a log table: every valid record is exactly one row, regardless of what happens to the table.

The model is the model of keyed tables except for the merge: the position is the key, and nothing replaces a row.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from lakehouse.declaration import Late, StreamTable
from lakehouse.derived import refresh
from lakehouse.ingest import batches
from lakehouse.ledger.audit import audit
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse.storage import stored_table
from lakehouse.storage.spark_writer import commit_append
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.histories.histories import FEW_LETTERS, Histories
from lakehouse_tests.helpers.histories.model import Model
from lakehouse_tests.helpers.histories.model_values import LATE_AFTER, Key, ModelCounts, Order, Position, Row, Rules
from lakehouse_tests.helpers.histories.surroundings import IS_WEATHER, NULLS, Letter
from lakehouse_tests.helpers.tables.log_tables import COLUMNS, log_table
from lakehouse_tests.helpers.tables.rows import rows_of


class LogModel(Model):
    """The model of a log table: its rows by position."""

    def _merge(
        self, rows: Iterable[tuple[Any, float | None, Order]], *_: Collection[Order], **__: Collection[Order]
    ) -> ModelCounts:
        inserted = stale = 0
        for key, temperature, order in rows:
            position: Any = order[2:]
            stale += position in self.now.rows
            inserted += position not in self.now.rows
            self.now.rows.setdefault(position, Row(temperature, key, None))
        return ModelCounts(inserted=inserted, stale=stale)


class LogHistories(Histories):
    """One new log table and its topic; a subclass sets ``parts``."""

    new_model: Callable[[], Model] = LogModel
    reload_base = None  # type: ignore[assignment]
    foreign_update = None  # type: ignore[assignment]
    foreign_delete = None  # type: ignore[assignment]
    add_partition = None  # type: ignore[assignment]
    foreign_optimize = None  # type: ignore[assignment]

    @initialize(sent_letters=FEW_LETTERS)
    def begin(self, sent_letters: list[Letter]) -> None:
        Histories.begin(self)
        self.send_and_merge(sent_letters, 0, None)

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        column = replace(COLUMNS[3], between=(-100, rules.hottest), null_values=NULLS)
        late = Late("observed_at", LATE_AFTER, "reject" if rules.rejects_late else "accept")
        where = IS_WEATHER if rules.filters_types else None
        return replace(like or log_table(), columns=[*COLUMNS[:3], column], late=late, where=where)

    @precondition(lambda self: self.model.now.rows)
    @rule(data=st.data())
    def somebody_deletes(self, data: st.DataObject) -> None:
        position: Any = data.draw(st.sampled_from(sorted(self.model.now.rows)), label="position")
        self._foreign(f"DELETE FROM {{t}} WHERE {self.record_condition(position)}")
        del self.model.now.rows[position]
        self.model.committed(self.tables.version)

    def record_condition(self, position: Position) -> str:
        return f"_record.partition = {position[0]} AND _record.position = {position[1]}"

    def position_of(self, stored_record: dict[str, Any]) -> Position:
        return stored_record["partition"], stored_record["position"]

    @precondition(lambda self: len(self.model.moments) > 1)
    @rule(data=st.data(), sent_letters=FEW_LETTERS)
    def a_restore_comes_between(self, data: st.DataObject, sent_letters: list[Letter]) -> None:
        """The table is restored between plan and commit of a batch: the commit does not count, but its rows remain."""
        planned_on = self.tables.version
        version = data.draw(st.sampled_from(sorted(self.model.moments)), label="version")
        if version == planned_on:
            return
        self.send(sent_letters, 0)
        restored_versions = list[int]()

        def append_to_restored(*args: Any, **kwargs: Any) -> Any:
            if not restored_versions:
                self._foreign(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
                restored_versions.append(version)
            return commit_append(*args, **kwargs)

        with pytest.MonkeyPatch.context() as patch, by_spark():
            patch.setattr(stored_table, "commit_append", append_to_restored)
            outcomes = batches.merge_all(TableContext(self.spark, self.settings, self.table))
        if restored_versions:
            self._expect_uncounted(version, planned_on)
        for outcome in outcomes:
            self.expect_batch(outcome)

    def _expect_uncounted(self, version: int, planned_on: int) -> None:
        progress = self.model.now.progress
        unmerged = [rows for p, sent in self.model.topic.items() for rows in sent[progress.get(p, 0) :]]
        passing_records = self.model.passing(unmerged)
        self.model.decide_all(unmerged)
        self.model.restore(version)
        self.model.committed(planned_on + 1)
        for record in passing_records:
            position: Any = record.position
            self.model.now.rows[position] = Row(record.temperature, record.key or (), None)
        self.model.committed(planned_on + 2)

    @invariant()
    def tables_equal_the_model(self) -> None:
        if not self.tables.exists:
            return
        if self.tables.version != self.compared:
            self._compare()
            self.compared = self.tables.version
        assert self.tables.rejected(self.tables.ledger()) == self.model.rejected()
        self.parts.on_step()

    def _compare(self) -> None:
        context = TableContext(self.spark, self.settings, self.table)
        (rollup,) = self.table.rollups
        refresh.refresh_rollup(context, rollup)
        rows = rows_of(self.settings, self.table.name)
        assert len(rows) == len(self.model.now.rows)
        stored_values: dict[Any, Any] = {self.position_of(row["_record"]): _stored_value(row) for row in rows}
        assert stored_values == {
            position: (row.temperature, row.order) for position, row in self.model.now.rows.items()
        }
        ledger = self.tables.ledger()
        assert {name: n for name, n in ledger.totals.model_dump().items() if n} == {
            name: n for name, n in self.model.now.totals.items() if n
        }
        assert not [finding for finding in audit(ledger) if not finding.passed]
        assert verify_keys(context).passed
        assert verify_rollup(context, rollup).passed


def _stored_value(row: dict[str, Any]) -> tuple[float | None, Key]:
    return row["temperature_2m"], (row["latitude"], row["longitude"], row["observed_at"])
