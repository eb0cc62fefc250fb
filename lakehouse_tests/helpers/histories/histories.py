"""Random histories: a state machine that changes real tables as users, brokers and other programs do.

After every step the merged, rejected, changes and rollup tables and the accounting equal those of the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakehouse.declaration import StreamTable, Upkeep
from lakehouse.derived import refresh
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request
from lakehouse.ingest.load import load_base
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import add_partitions
from lakehouse.ledger.audit import audit
from lakehouse.ledger.positions import Range
from lakehouse.operations.maintain import maintain
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.writers import WRITERS, by_writer
from lakehouse_tests.helpers.histories.model import Model
from lakehouse_tests.helpers.histories.model_values import Key, ModelCounts, Moment, Partition, Rules
from lakehouse_tests.helpers.histories.surroundings import (
    KEYS,
    RULES,
    TEMPERATURES,
    Letter,
    Mail,
    declare_table,
    letters,
    make_topic,
    post,
    write_base,
)
from lakehouse_tests.helpers.tables.tables import Tables

SEVERAL_VERSIONS = 8  # versions after which maintenance has work to do
FEW_LETTERS = st.lists(letters, min_size=1, max_size=8)


@dataclass(frozen=True)
class Parts:
    """The real parts of a history; ``on_step`` is called after every comparison."""

    spark: SparkSession
    settings: Settings
    folder: Callable[[], Any]
    on_step: Callable[[], None]


class Histories(RuleBasedStateMachine):
    """One new table and its topic; a subclass sets ``parts``."""

    parts: Parts
    new_model: Callable[[], Model] = Model

    @initialize()
    def begin(self) -> None:
        self.model = self.new_model()
        self.spark = self.parts.spark
        self.settings = self.parts.settings
        self.table = self.make_table(self.model.rules)
        self.tables = Tables(self.settings, self.table)
        self.compared = self.maintained = -1
        self.make_topics()

    def make_topics(self) -> None:
        make_topic(self.settings, self.table.topic, partitions=2)
        self.model.topic = {0: [], 1: []}

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        """Declare the table with these rules."""
        return declare_table(rules, like)

    @rule(sent_letters=FEW_LETTERS, partition=st.integers(0, 3))
    def send(self, sent_letters: list[Letter], partition: int) -> None:
        self.deliver(sent_letters, partition)

    def deliver(self, mail: Sequence[Mail], partition: int) -> None:
        partition = self.partitions()[partition % len(self.partitions())]
        self.model.times[partition] += [item.broker_time for item in mail]
        self.model.topic[partition] += post(self.settings, self.table.topic, partition, mail)

    @rule(sent_letters=FEW_LETTERS, partition=st.integers(0, 3), size=st.sampled_from([None, None, 3, 5]))
    def send_and_merge(self, sent_letters: list[Letter], partition: int, size: int | None) -> None:
        self.send(sent_letters, partition)
        self.merge(size)

    @rule(size=st.sampled_from([None, 2, 7]))
    def merge(self, size: int | None) -> None:
        self.before_merge()
        with by_writer(WRITERS[len(self.model.moments) % len(WRITERS)]):  # they alternate
            outcomes = batches.merge_all(TableContext(self.spark, self.settings, self.table), Request(size))
        self.expect_base(outcomes)
        for outcome in outcomes:
            self.expect_batch(outcome)
        end_offsets = {partition: len(self.model.topic[partition]) for partition in self.partitions()}
        assert {p: self.model.now.progress.get(p, 0) for p in end_offsets} == end_offsets, "some records are not merged"

    def partitions(self) -> list[Partition]:
        """The partitions that exist now."""
        return sorted(self.model.topic)

    def before_merge(self) -> None:
        """Do what a merge needs; a subclass overrides it."""

    def expect_base(self, outcomes: list[Outcome]) -> None:
        """Take the commit of base rows from the outcomes of a merge, if there must be one."""
        self.model.moments.setdefault(0, Moment())
        base_counted = self.model.merge_base(outcomes[0].entry.commit.number if outcomes else 0)
        if base_counted:
            self._expect(outcomes.pop(0), base_counted)

    def expect_batch(self, outcome: Outcome) -> None:
        self._expect(outcome, self.model.batch(self.ranges_of(outcome)))

    def ranges_of(self, outcome: Outcome) -> dict[Partition, tuple[int, int]]:
        assert outcome.plan is not None
        return {part.partition: (part.start, part.end) for part in outcome.plan.ranges}

    def _expect(self, outcome: Outcome, expected_counts: ModelCounts) -> None:
        commit, metrics = outcome.entry.commit, outcome.entry.metrics
        actual_counts = ModelCounts(
            read=commit.read,
            empty=commit.empty,
            judged=commit.judged,
            filtered=commit.filtered,
            rejected=commit.rejected,
            late=commit.late,
            superseded=commit.superseded,
            inserted=metrics.inserted,
            updated=metrics.updated,
            deleted=metrics.deleted,
            deletes_without_row=commit.deletes_without_row,
            stale=outcome.entry.stale,
            corrected=commit.corrected,
            withdrawn=commit.withdrawn,
            erased=commit.erased,
        )
        assert actual_counts == expected_counts, f"{commit.kind} {commit.number}: {actual_counts}, {expected_counts}"
        self.model.committed(outcome.entry.version)

    @precondition(lambda self: any(self.model.now.progress.values()))
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        ranges = []
        for partition, end in self.model.now.progress.items():
            start = data.draw(st.integers(0, end), label=f"start of {partition}")
            ranges.append(Range(partition, start, data.draw(st.integers(start, end), label="end")))
        request = Request(data.draw(st.sampled_from([None, 4]), label="size"))
        for outcome in replay(TableContext(self.spark, self.settings, self.table), ranges, request):
            self._expect(outcome, self.model.replay(self.ranges_of(outcome)))

    @precondition(lambda self: self.model.rejected())
    @rule()
    def redrive(self) -> None:
        outcomes = redrive(TableContext(self.spark, self.settings, self.table))
        expected_counts = self.model.redrive()
        assert len(outcomes) == (0 if expected_counts is None else 1)
        if expected_counts:
            self._expect(outcomes[0], expected_counts)

    @rule(rules=st.sampled_from(RULES))
    def declare(self, rules: Any) -> None:
        self.model.rules = rules
        self.table = self.make_table(rules, self.table)

    @rule()
    def restart(self) -> None:
        spark: Any = self.parts.spark
        self.spark = spark.cloneSession() if is_remote() else spark.newSession()

    @rule(values=st.dictionaries(st.sampled_from(KEYS), st.sampled_from([None, *TEMPERATURES]), min_size=1))
    def reload_base(self, values: dict[Any, float | None]) -> None:
        folder = write_base(self.parts.folder(), values)
        base_before = dict(self.model.base)
        base_load = load_base(TableContext(self.spark, self.settings, self.table), folder)
        self.model.load_base(values, base_load.version if base_load.has_changes else self.model.base_version)
        assert base_load.has_changes == (base_before != self.model.base)

    @precondition(lambda self: self.tables.exists and self.tables.version > self.maintained + SEVERAL_VERSIONS)
    @rule()
    def maintenance(self) -> None:
        maintain(TableContext(self.spark, self.settings, self.table))
        self.maintained = self.tables.version
        self.model.committed(self.maintained)

    @precondition(lambda self: len(self.model.moments) > 1)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.model.moments)), label="version")
        if version == self.tables.version:
            return
        self._foreign(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        self.model.restore(version)
        self.model.committed(self.tables.version)

    @precondition(lambda self: self.model.now.rows)
    @rule(data=st.data(), temperature=st.sampled_from(TEMPERATURES))
    def foreign_update(self, data: st.DataObject, temperature: float) -> None:
        self.overwrite(data.draw(st.sampled_from(sorted(self.model.now.rows)), label="key"), temperature)

    def overwrite(self, key: Key, temperature: float) -> None:
        self._foreign(f"UPDATE {{t}} SET temperature_2m = {temperature}D WHERE {key_condition(key)}")
        self.model.overwrite(key, temperature)
        self.model.committed(self.tables.version)

    @precondition(lambda self: self.model.now.rows)
    @rule(data=st.data())
    def foreign_delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.now.rows)), label="key")
        self._foreign(f"DELETE FROM {{t}} WHERE {key_condition(key)}")
        del self.model.now.rows[key]
        self.model.committed(self.tables.version)

    @precondition(lambda self: self.tables.exists)
    @rule()
    def foreign_optimize(self) -> None:
        self._foreign("OPTIMIZE {t}")
        self.model.committed(self.tables.version)

    def _foreign(self, statement: str) -> None:
        self.spark.sql(statement.format(t=f"delta.`{self.tables.uri}`")).collect()

    @precondition(lambda self: len(self.model.topic) < 4)
    @rule()
    def add_partition(self) -> None:
        partition = len(self.model.topic)
        add_partitions(self.settings, self.table.topic, partition + 1)
        self.model.topic[partition] = []

    @invariant()
    def tables_equal_the_model(self) -> None:
        if not self.tables.exists:
            return
        if self.tables.version != self.compared:
            refresh.refresh_changes(TableContext(self.spark, self.settings, self.table))
            for rollup in self.table.rollups:
                refresh.refresh_rollup(TableContext(self.spark, self.settings, self.table), rollup)
            self.compared = self.tables.version
            assert self.tables.merged() == self.model.now.rows
            assert self.tables.changes() == self.model.changes()
            assert self.tables.rollup() == self.model.rollup()
        ledger = self.tables.ledger()
        assert self.tables.rejected(ledger) == self.model.rejected()
        assert {name: n for name, n in ledger.totals.model_dump().items() if n} == {
            name: n for name, n in self.model.now.totals.items() if n
        }
        assert not [finding for finding in audit(ledger) if not finding.passed]
        self.parts.on_step()


class BegunHistories(Histories):
    """A history that begins with a merge, so that every step is compared."""

    @initialize(sent_letters=FEW_LETTERS)
    def begin(self, sent_letters: list[Letter]) -> None:
        Histories.begin(self)
        self.send_and_merge(sent_letters, 0, None)


class HiddenHistories(BegunHistories):
    """A history of a table whose replaced rows are hidden by deletion vectors."""

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return replace(declare_table(rules, like), upkeep=Upkeep(deletion_vectors=True))


def key_condition(key: Any) -> str:
    """The condition of a row with this key, in SQL."""
    latitude, longitude, hour = key
    return f"latitude = {latitude}BD AND longitude = {longitude}BD AND observed_at = TIMESTAMP'{hour:%Y-%m-%d %H:%M}'"
