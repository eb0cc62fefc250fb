"""Random histories of tables that read several topics; one of them appears later, and records expire.

Topics are also deleted and created again: records of the former topic are lost if they were not merged.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from lakehouse.declaration import Column, StreamTable, Topic, TopicName, TopicPattern
from lakehouse.errors import DataLossError
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import add_partitions, delete_topic, read_topic
from lakehouse.ledger.positions import Range
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.brokers.streams import accept_gap
from lakehouse_tests.helpers.histories.delete_histories import DeleteHistories, PurgeHistories
from lakehouse_tests.helpers.histories.histories import Histories
from lakehouse_tests.helpers.histories.log_histories import LogHistories
from lakehouse_tests.helpers.histories.model_values import ModelCounts, Partition, Position, Rules
from lakehouse_tests.helpers.histories.surroundings import Letter, Mail, make_topic, post
from lakehouse_tests.helpers.histories.topic_model import TopicLogModel, TopicModel
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.tables.tables import redeclare

_TOPIC = Column("topic", "STRING", source=TopicName(), doc="Topic of the newest record.")
_FIRST_ENDINGS, _LATER_ENDING = ("b", "c"), "a"
_MOST_PARTITIONS = 3


class TopicHistories(Histories):
    """One new table and its topics; a subclass sets ``parts`` and adds the rules of a kind of table."""

    new_model = TopicModel
    model: TopicModel

    def make_topics(self) -> None:
        self.earliest: dict[Partition, int] = defaultdict(int)
        self.read_sources: set[str] = set()  # those that ever had progress
        for ending in _FIRST_ENDINGS:
            self._make_topic(f"{self.table.name}-{ending}")

    def _make_topic(self, name: str) -> None:
        make_topic(self.settings, name, partitions=2)
        self.model.add_topic(name, read_topic(self.settings, name).source.text, partitions=2)

    @precondition(lambda self: len(self.model.current) == len(_FIRST_ENDINGS))
    @rule()
    def a_topic_appears(self) -> None:
        self._make_topic(f"{self.table.name}-{_LATER_ENDING}")

    @rule(data=st.data())
    def a_topic_is_created_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.current)), label="name")
        delete_topic(self.settings, name)
        self._make_topic(name)

    @rule(data=st.data())
    def add_partition(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.current)), label="name")
        source = self.model.current[name]
        number = len(self.model.partitions_of(source))
        if number < _MOST_PARTITIONS:
            add_partitions(self.settings, name, number + 1)
            self.model.topic[source, number] = []

    @rule(data=st.data())
    def records_expire(self, data: st.DataObject) -> None:
        source, number = partition = data.draw(st.sampled_from(self.partitions()), label="partition")
        offset = data.draw(st.integers(self.earliest[partition], len(self.model.topic[partition])), label="offset")
        if offset > self.earliest[partition]:
            delete_before(self.settings, self.model.names[source], {number: offset})
            self.earliest[partition] = offset

    @rule(accepts=st.booleans())
    def declare_gaps(self, accepts: bool) -> None:
        self.table = redeclare(self.table, gaps="accept" if accepts else "stop")

    def deliver(self, mail: Sequence[Mail], partition: int) -> None:
        """Send mail to one of all partitions; a table of several topics has no truncates."""
        source, number = place = self.partitions()[partition % len(self.partitions())]
        letters = [replace(item, truncates=False) if isinstance(item, Letter) else item for item in mail]
        sent = post(self.settings, self.model.names[source], number, letters)
        self.model.times[place] += [item.broker_time for item in letters]
        self.model.topic[place] += [tuple(replace(row, partition=place) for row in rows) for rows in sent]

    def before_merge(self) -> None:
        """Accept each gap, after a merge has stopped before it, unless the declaration accepts it."""
        if not self._gaps_to_accept():
            return
        outcomes = list[Outcome]()
        with pytest.raises(DataLossError), by_spark():
            batches.merge_all(TableContext(self.spark, self.settings, self.table), on_batch=outcomes.append)
        self.expect_base(outcomes)
        for outcome in outcomes:
            self.expect_batch(outcome)
        for source in self._gaps_to_accept():
            part = TableContext(self.spark, self.settings, self.table.in_topic(self.model.names[source]))
            self._expect_begin(Outcome(accept_gap(part), None, 0, 0, 0.0), source)

    def expect_batch(self, outcome: Outcome) -> None:
        """Expect a batch, or the commit before it that begins a topic or accepts a gap."""
        assert outcome.plan is not None or outcome.entry.commit.source is not None
        commit = outcome.entry.commit
        source = commit.source.text if commit.source else ""
        assert commit.stream == self.model.names[source]
        if commit.kind == "batch":
            assert self.model.has_progress(source), "the begin of the topic is not recorded"
            Histories.expect_batch(self, outcome)
        else:
            self._expect_begin(outcome, source)

    def _expect_begin(self, outcome: Outcome, source: str) -> None:
        commit, progress = outcome.entry.commit, self.model.now.progress
        lost_ranges = self._lost_ranges().get(source, [])
        continues = self.model.has_progress(source) or self.model.progress_before(source)
        assert commit.kind == ("gap" if continues else "start")
        assert (lost_ranges or commit.kind == "start") and list(commit.gap) == lost_ranges
        places = self.model.partitions_of(source)
        self.model.begin(source, {place: max(progress.get(place, 0), self.earliest[place]) for place in places})
        self.read_sources.add(source)
        self._expect(outcome, ModelCounts())

    def _gaps_to_accept(self) -> list[str]:
        """The sources that a merge does not read: the declaration accepts only that records expired."""
        is_accepted = self.table.topic_options.gaps == "accept"
        return [source for source in self._lost_ranges() if not is_accepted or self.model.progress_before(source)]

    def _lost_ranges(self) -> dict[str, list[Range]]:
        """The records that are gone before they were merged, or whose merge a RESTORE undid, by source."""
        lost_ranges: dict[str, list[Range]] = {}
        for source in self.model.current.values():
            former_progress = self.model.progress_before(source)
            ranges = [Range(number, end, end) for (_, number), end in sorted(former_progress.items())]
            if source in self.read_sources and (self.table.is_log or not former_progress):
                # a log table has the rows of records whose merge a RESTORE undid
                read = self.model.furthest_progress() if former_progress else self.model.now.progress
                ranges += self._expired_ranges(source, read)
            if ranges:
                lost_ranges[source] = ranges
        return lost_ranges

    def _expired_ranges(self, source: str, read: Mapping[Partition, int]) -> list[Range]:
        places = [place for place in self.model.partitions_of(source) if read.get(place, 0) < self.earliest[place]]
        return [Range(place[1], read.get(place, 0), self.earliest[place]) for place in places]

    def partitions(self) -> list[Partition]:
        return self.model.current_partitions

    def ranges_of(self, outcome: Outcome) -> dict[Partition, tuple[int, int]]:
        assert outcome.plan is not None
        source = outcome.plan.source.text
        return {(source, number): offsets for number, offsets in Histories.ranges_of(self, outcome).items()}

    @precondition(lambda self: any(self.model.now.progress.values()) and not self._lost_ranges())
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Replay all topics, or ranges of one."""
        request = Request(data.draw(st.sampled_from([None, 4]), label="size"))
        progress = self.model.now.progress
        source = data.draw(st.sampled_from([None, *sorted({place[0] for place in progress})]), label="source")
        table, ranges = self.table, list[Range]()
        if source:
            table = table.in_topic(self.model.names[source])
            for place in sorted(place for place in progress if place[0] == source):
                start = data.draw(st.integers(self.earliest[place], progress[place]), label=f"start of {place[1]}")
                end = data.draw(st.integers(start, progress[place]), label="end")
                ranges.append(Range(place[1], start, end))
        outcomes = replay(TableContext(self.spark, self.settings, table), ranges if source else None, request)
        for outcome in outcomes:
            self._expect(outcome, self.model.replay(self.ranges_of(outcome)))
        if not source:
            spans = [end - start for outcome in outcomes for start, end in self.ranges_of(outcome).values()]
            assert sum(spans) == sum(end - self.earliest[place] for place, end in progress.items())

    def rejected_sources(self) -> list[str]:
        return sorted({place[0][0] for place in self.model.rejected()})

    @precondition(lambda self: self.rejected_sources() and set(self.rejected_sources()) <= self.model.now.sources)
    @rule()
    def redrive(self) -> None:
        """Redrive the rejected records of all topics: a commit for each source, in their order."""
        sources = self.rejected_sources()
        outcomes = redrive(TableContext(self.spark, self.settings, self.table))
        for source in sources:
            expected_counts = self.model.redrive(self.model.partitions_of(source))
            if expected_counts:
                self._expect(outcomes.pop(0), expected_counts)
        assert not outcomes

    @invariant()
    def progress_and_names_equal_the_model(self) -> None:
        if not self.tables.exists:
            return
        assert self.tables.progress(self.tables.ledger()) == self.model.now.progress
        for row in rows_of(self.settings, self.table.name):
            assert "topic" not in row or row["topic"] == self.model.names.get(row["_record"]["source"])


def _of_one_topic(table: StreamTable | None) -> StreamTable | None:
    return replace(table, topic="", source=Topic(table.name)) if table else None


def _of_topics(table: StreamTable) -> StreamTable:
    deletes = replace(table.deletes, truncates=None)
    columns = [*table.columns, *([] if table.base else [_TOPIC])]  # base rows have no topic
    return redeclare(table, source=TopicPattern(f"{table.name}-.*"), columns=columns, deletes=deletes)


class TopicDeleteHistories(TopicHistories, DeleteHistories):
    """A table of several topics with deletes; a subclass sets ``parts``."""

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return _of_topics(DeleteHistories.make_table(rules, _of_one_topic(like)))

    def merge_base_alone(self) -> None:
        self.before_merge()
        DeleteHistories.merge_base_alone(self)


class TopicPurgeHistories(TopicDeleteHistories, PurgeHistories):
    """A table of several topics whose old deletes are purged, and which has no base rows."""

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return _of_topics(PurgeHistories.make_table(rules, _of_one_topic(like)))


class TopicLogHistories(TopicHistories, LogHistories):
    """A log table of several topics; a subclass sets ``parts``."""

    new_model = TopicLogModel
    add_partition = TopicHistories.add_partition  # type: ignore[assignment]
    a_restore_comes_between = None  # type: ignore[assignment]

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return _of_topics(LogHistories.make_table(rules, _of_one_topic(like)))

    def record_condition(self, position: Position) -> str:
        (source, number), offset = position
        return f"_record.source = '{source}' AND {LogHistories.record_condition(self, (number, offset))}"

    def position_of(self, stored_record: dict[str, Any]) -> Position:
        number, offset = LogHistories.position_of(self, stored_record)
        return (stored_record["source"], number), offset
