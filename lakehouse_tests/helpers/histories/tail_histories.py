"""Random histories of a topic that loses its newest records and grows again: what a table reads next, without Spark.

The broker is restored from older copies. The tables are real logs of Delta, whose commits say what was read.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import plan_next
from lakehouse.ingest.gaps import plan_table
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.commit_values import LastRecord
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Plan
from lakehouse.operations.repair import propose_gap
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.table_context import merged_ledger
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.brokers.streams import unique_table
from lakehouse_tests.helpers.histories.surroundings import make_topic, post
from lakehouse_tests.helpers.histories.tail_model import Note, TailModel
from lakehouse_tests.helpers.tables.merged_topics import commit_to_table

COUNTS = st.tuples(st.integers(0, 6), st.integers(0, 3))  # records of each partition
GROWN = st.tuples(st.sampled_from([9, 9, 2, 0]), st.sampled_from([5, 5, 1, 0]))
LIMITS = st.sampled_from([None, None, 1, 3])
_BEGIN = datetime(2023, 1, 1, tzinfo=UTC)


class Loss(NamedTuple):
    """The broker is restored from a copy, counted from the newest one: what is sent and merged before, and after."""

    copy: int
    lost_records: tuple[int, int]
    new_records: tuple[int, int]
    limit: int | None
    has_same_time: bool
    accepts: bool


class TailHistories(RuleBasedStateMachine):
    """One new topic and its table; a subclass sets ``server``, ``make_folder`` and ``on_step``."""

    server: OneServer
    make_folder: Callable[[], Path]
    on_step: Callable[[], None]

    @initialize(counts=COUNTS)
    def begin(self, counts: tuple[int, int]) -> None:
        self.model, self.sent, self.copies = TailModel(), 0, list[Path]()
        self.table = unique_table(partitions=2, base=None)
        self.home = type(self).make_folder()
        make_topic(self.server.settings, self.table.topic, partitions=2)
        self.copy_broker()
        self.send(counts, has_same_time=False)
        self.merge(None)

    @property
    def settings(self) -> Settings:
        """The settings of a home of its own; the broker may have another address after a restart."""
        address = bootstrap_servers(self.server.settings)
        return Settings(home=self.home, kafka_bootstrap_servers=address, _env_file=None)

    @rule(counts=COUNTS, has_same_time=st.booleans())
    def send(self, counts: tuple[int, int], has_same_time: bool) -> None:
        """Send records that differ in their times, which go back and forth, or only in their contents."""
        for partition, count in enumerate(counts):
            notes = list[Note]()
            for number in range(self.sent, self.sent + count):
                shift = timedelta(0) if has_same_time else timedelta(seconds=number if number % 2 else -number)
                notes.append(Note(_BEGIN + shift, str(number).encode() if has_same_time else b"same"))
            self.sent += count
            post(self.settings, self.table.topic, partition, notes)
            self.model.topic[partition] += notes

    @rule(counts=COUNTS, has_same_time=st.booleans(), limit=LIMITS)
    def send_and_merge(self, counts: tuple[int, int], has_same_time: bool, limit: int | None) -> None:
        self.send(counts, has_same_time)
        self.merge(limit)

    def copy_broker(self) -> None:
        self.copies.append(type(self).make_folder() / "copy")
        self.server.copy_data(self.copies[-1])
        self.model.take_copy()

    @rule(loss=st.builds(Loss, st.sampled_from([0, 0, 0, 1, 2]), COUNTS, GROWN, LIMITS, st.booleans(), st.booleans()))
    def lose_records(self, loss: Loss) -> None:
        """The topic loses what was sent since a copy, or is that of another copy, and grows at once."""
        self.send_and_merge(loss.lost_records, loss.has_same_time, loss.limit)
        number = max(0, len(self.copies) - 1 - loss.copy)
        self.copies.append(type(self).make_folder() / "copy")
        self.server.start_with(self.copies[number], self.copies[-1])
        self.model.take_copy()
        self.model.restore_copy(number)
        self.send(loss.new_records, loss.has_same_time)
        self.merge(None)
        if loss.accepts:
            self.accept()
            self.merge(None)

    @rule(limit=LIMITS)
    def merge(self, limit: int | None) -> None:
        """Commit the next batch: what it reads was not read before, and no batch follows a loss."""
        lost_partitions = self.model.lost_partitions()
        try:
            plan = self.plan(limit)
        except DataLossError:
            assert lost_partitions, "nothing was lost"
            return
        assert not lost_partitions, "a loss is silent"
        assert {p.partition: p.start for p in plan.ranges} == self.model.progress
        if not plan.span:
            assert not self.model.has_unread, "records are left out"
            return
        self.model.read({part.partition: part.end for part in plan.ranges})
        ledger = merged_ledger(self.settings, self.table)
        last_records = {p: self._last_record(p) for p, notes in self.model.merged.items() if notes}
        fields = {"source": plan.source, "stream": plan.stream, "progress": plan.progress.positions}
        commit = ledger.next_commit("batch", "test").with_fields(**fields, last_records=last_records)
        commit_to_table(self.settings, self.table, commit)

    def plan(self, limit: int | None) -> Plan:
        """Plan a batch as a merge does, which compares every partition."""
        ledger = merged_ledger(self.settings, self.table)
        state = source_of(self.settings, self.table).read_state(ledger, PATIENCE)
        return plan_table(self.table, state, ledger, Bounds(limit))

    def _last_record(self, partition: int) -> LastRecord:
        notes = self.model.merged[partition]
        time = int(notes[-1].broker_time.timestamp() * 1_000_000)
        return LastRecord(position=len(notes) - 1, time=time, checksum=crc32(notes[-1].value))

    @rule()
    def preview_state(self) -> None:
        """A tick stops at each partition that lost records and does not end at its progress."""
        lost_partitions, progress = self.model.lost_partitions(), self.model.progress
        visible_partitions = {p for p in lost_partitions if len(self.model.topic[p]) != progress[p]}
        try:
            plan_next(self.settings, self.table)
        except DataLossError:
            assert visible_partitions
        else:
            assert not visible_partitions, "a loss is silent"

    @rule()
    def accept(self) -> None:
        """Accept a loss: what is known to be there is not read again, and nothing else is passed over."""
        proposal, lost_partitions = propose_gap(self.settings, self.table), self.model.lost_partitions()
        assert (proposal is not None) == bool(lost_partitions)
        if proposal:
            self.model.accept(lost_partitions)
            assert proposal.positions == self.model.progress
            commit_to_table(self.settings, self.table, proposal.commit)

    @invariant()
    def step_is_counted(self) -> None:
        type(self).on_step()
