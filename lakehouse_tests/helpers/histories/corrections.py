"""Random histories in which merged records are read again by the rules of now, and what is stored of them follows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from lakehouse.ingest.batches import Request
from lakehouse.ingest.replay import read_again
from lakehouse.ledger.positions import Range
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.histories.delete_histories import LETTERS as DELETE_LETTERS
from lakehouse_tests.helpers.histories.delete_histories import DeleteHistories
from lakehouse_tests.helpers.histories.histories import FEW_LETTERS, BegunHistories, Histories
from lakehouse_tests.helpers.histories.log_histories import LogHistories, LogModel
from lakehouse_tests.helpers.histories.model import Model
from lakehouse_tests.helpers.histories.model_values import Key, ModelCounts, Order, Partition, Record, Row
from lakehouse_tests.helpers.histories.surroundings import RULES

Ranges = Mapping[Partition, tuple[int, int]]
_NO_ORDER: Order = (-1,)  # of a row that only a record of these ranges can keep


def correct(model: Model, ranges: Ranges) -> ModelCounts:
    """Read records again: forget what is stored of them, merge them, and remove what none of them brings back."""
    sent = [rows for p, (start, end) in ranges.items() for rows in model.topic[p][start:end]]
    passing = [record for record in model.passing(sent) if record.key is not None and not record.truncates]
    read = {(p, offset) for p, (start, end) in ranges.items() for offset in range(start, end)}
    if isinstance(model, LogModel):
        return _correct_log(model, ranges, read)
    before = dict(model.now.rows)
    forgotten = {key for key, row in before.items() if _forget(row, read) != row}
    deletes = {(record.key, record.order) for record in passing if record.deletes}
    deletes_before = len(model.now.deletes)
    model.now.rows = {key: _forget(row, read) for key, row in before.items()}
    model.now.deletes = {
        key: order for key, order in model.now.deletes.items() if not _is_of(order, read) or (key, order) in deletes
    }
    has_former_deletes = len(model.now.deletes) < deletes_before
    counts = model.replay(ranges)
    model.now.rows = {key: row for key, row in model.now.rows.items() if row.order != _NO_ORDER}
    newest = {record.key: record for record in sorted(passing, key=lambda record: record.order) if record.key}
    outcomes = _outcomes(before, model.now.rows, newest, forgotten)
    if outcomes["corrected"] or has_former_deletes:
        model.now.base_version = None
    return replace(counts, **outcomes, withdrawn=len(forgotten - newest.keys()))


def _outcomes(
    before: Mapping[Key, Row], after: Mapping[Key, Row], newest: Mapping[Key, Record], forgotten: set[Key]
) -> dict[str, int]:
    """Count what became of the keys that were read, and of those whose stored values were read again."""
    names = ("inserted", "updated", "deleted", "deletes_without_row", "stale")
    counts = dict.fromkeys(names, 0)
    for key in newest.keys() | forgotten:
        old_row, row = before.get(key), after.get(key)
        if old_row is None and row is None:
            counts["deletes_without_row" if newest[key].deletes else "stale"] += 1
        elif old_row is None or row is None:
            counts["inserted" if row else "deleted"] += 1
        else:
            counts["stale" if row == old_row else "updated"] += 1
    return counts | {"corrected": sum(before.get(key) != after.get(key) for key in forgotten)}


def _is_of(order: Order | None, read: set[tuple[Any, int]]) -> bool:
    return order is not None and order[0] == 1 and order[2:4] in read


def _forget(row: Row, read: set[tuple[Any, int]]) -> Row:
    """Return what is left of a row without what came from records that were read."""
    temperature_order = row.temperature_order
    if temperature_order is None and row.temperature is not None:
        temperature_order = row.order
    order = _NO_ORDER if _is_of(row.order, read) else row.order
    if _is_of(temperature_order, read):
        return Row(None, order, None)
    return Row(row.temperature, order, row.temperature_order)


def _correct_log(model: Model, ranges: Ranges, read: set[tuple[Any, int]]) -> ModelCounts:
    rows: dict[Any, Row] = dict(model.now.rows)
    read_rows = {position: row for position, row in rows.items() if position[:2] in read}
    model.now.rows = {position: row for position, row in rows.items() if position not in read_rows}
    counts = model.replay(ranges)
    left_rows: dict[Any, Row] = dict(model.now.rows)
    gone_positions = read_rows.keys() - left_rows.keys()
    updated = sum(row != left_rows[position] for position, row in read_rows.items() if position not in gone_positions)
    stale = len(read_rows) - len(gone_positions) - updated
    changes = {
        "updated": updated,
        "deleted": len(gone_positions),
        "withdrawn": len(gone_positions),
        "corrected": updated + len(gone_positions),
    }
    return replace(counts, inserted=counts.inserted - updated - stale, stale=stale, **changes)


class ReadsAgain(Histories):
    """A history in which records are read again; ``corrected`` counts the stored rows that this changed."""

    corrected = 0

    @precondition(lambda self: any(self.model.now.progress.values()))
    @rule(rules=st.sampled_from(RULES), size=st.sampled_from([None, None, 4]))
    def read_again(self, rules: Any, size: int | None) -> None:
        self.declare(rules)
        self.read_ranges_again(None, size)
        self.require_newest_records()

    def read_halves_again(self, rules: Any) -> None:
        """Read the beginnings of the partitions again, then the rest: together they are everything."""
        self.declare(rules)
        ends = self.model.now.progress
        self.read_ranges_again([Range(p, 0, end // 2) for p, end in ends.items() if end > 1], None)
        self.read_ranges_again([Range(p, end // 2, end) for p, end in ends.items() if end], None)
        self.require_newest_records()

    def read_ranges_again(self, ranges: list[Range] | None, size: int | None) -> None:
        context = TableContext(self.spark, self.settings, self.table)
        outcomes = read_again(context, None if ranges is None else {self.table.topic: ranges}, Request(size))
        base_outcomes = [outcome for outcome in outcomes if outcome.entry.commit.kind == "base"]
        for outcome in outcomes:
            kind = outcome.entry.commit.kind
            if kind != "base":
                decide = correct if kind == "correction" else Model.replay
                self._expect(outcome, decide(self.model, self.ranges_of(outcome)))
                self.corrected += outcome.entry.commit.corrected
        self.expect_base(base_outcomes)
        assert not base_outcomes, "base rows were merged without a reason"
        self.model.committed(self.tables.version)

    def require_newest_records(self) -> None:
        """Require the rows that a merge of all records by the rules of now would give."""
        model = self.new_model()
        model.rules, model.topic, model.times = self.model.rules, self.model.topic, self.model.times
        model.erased = self.model.erased
        model.replay({partition: (0, end) for partition, end in self.model.now.progress.items()})
        rows: Any = self.model.now.rows
        assert {key: row.order for key, row in rows.items() if self.is_of_record(row)} == {
            key: row.order for key, row in model.now.rows.items()
        }

    def is_of_record(self, row: Row) -> bool:
        return row.order[0] == 1


class CorrectedHistories(ReadsAgain, BegunHistories):
    """A history of a table with base rows; a subclass sets ``parts``."""


class CorrectedDeleteHistories(ReadsAgain, DeleteHistories):
    """A history of a table with deletes and truncates; a subclass sets ``parts``."""


class CorrectedLogHistories(ReadsAgain, LogHistories):
    """A history of a log table; a subclass sets ``parts``."""

    def is_of_record(self, _: Row) -> bool:
        return True


def run_corrections(machine: type[ReadsAgain], rounds: int) -> ReadsAgain:
    """Send and merge drawn records, and read all again by drawn rules, in turns; the same in each run."""
    mail = DELETE_LETTERS if issubclass(machine, DeleteHistories) else FEW_LETTERS
    part = st.tuples(mail, st.sampled_from(RULES), st.sampled_from([None, 3]), st.integers(0, 1))
    histories: list[ReadsAgain] = []

    @settings(max_examples=2, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @seed(rounds)
    @given(st.lists(part, min_size=rounds, max_size=rounds))
    def run(parts: list[Any]) -> None:
        history = machine()
        histories.append(history)
        if len(histories) == 1:  # the simplest one, which is drawn first
            return
        history.begin(parts[0][0])
        for letters, rules, size, partition in parts:
            history.send_and_merge(letters, partition, size)
            history.tables_equal_the_model()
            if size is None:
                history.read_again(rules, size)
            else:
                history.read_halves_again(rules)
            history.tables_equal_the_model()

    run()
    return histories[-1]
