"""A Kafka topic as the target of a sink: changes and progress are committed in one transaction of the producer."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import NamedTuple, cast

import pyarrow as pa

from lakehouse.declaration.sink import ChangesTopic
from lakehouse.errors import TableError
from lakehouse.exports.files import python_values
from lakehouse.exports.row_texts import json_line
from lakehouse.kafka import create_named_topic
from lakehouse.kafka.raw_records import RawRecord
from lakehouse.kafka.transactions import Marker, Pairs, Step, progress_topic, read_contents, send_steps
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.commit_infos import identity_of
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.log import read_commit
from lakehouse.sinks.changed_rows import GONE, VERSION, SourceRows
from lakehouse.sinks.delivery import Delivery, SinkUpdate, TargetState, Written, as_of
from lakehouse.sinks.progress import find_marker, marker_progress, topic_facts
from lakehouse.sinks.topic_contents import TopicContents

_LOOKS = 3  # of a check, while runs send
_RECORDS = 10_000  # of a transaction, at least, if the changes are of several versions
_FOR_GOOD = {"cleanup.policy": "compact"}  # the newest record of each key stays


class Change(NamedTuple):
    """A change of a row as a record, and the version of the table that made it; ``None`` in a comparison."""

    key: bytes
    value: bytes | None
    version: int | None = None


class TopicDelivery(Delivery):
    """A sink whose target is a topic."""

    def look(self) -> TargetState:
        """Look how far the target is."""
        marker = find_marker(self.settings, self._target.name)
        return self.state_of(marker, self.source(), topic_facts(self.settings, self._target.name))

    def deliver(self, run: str, reason: str | None) -> SinkUpdate:
        """Send what changed, whole versions at once; or the difference between the topic and all rows."""
        topic = self._target
        create_named_topic(self.settings, topic.name, topic.partitions, _FOR_GOOD)
        create_named_topic(self.settings, progress_topic(topic.name), 1, _FOR_GOOD)
        facts = topic_facts(self.settings, topic.name)
        with closing(_Sending(self, facts, run, reason)) as sending:
            send_steps(self.settings, topic.name, sending)
        consumed = sending.consumed
        kind = None if not sending.has_sent else "whole" if sending.state.reason else "changes"
        return self._describe(consumed, kind, Written(sending.written, sending.deleted))

    def equals_table(self) -> Finding:
        """Compare the newest record of each key with the version of the table that the topic has."""
        for _ in range(_LOOKS):
            state = self.look()
            if state.consumption.version is None or not state.consumption.has_source:
                return self._finding(None)
            source = as_of(self.source(), state.consumption.version)
            with closing(TopicContents(self.settings)) as contents, source.open(None) as batches:
                read_contents(self.settings, self._target.name, contents.add)
                contents.add_rows((change.key, change.value) for change in changes_of(batches, source))
                differences = contents.count_differences()
            if self.look().consumption.consumed == state.consumption.consumed:  # else a run sent meanwhile
                break
        return self._finding(state.consumption.version, differences)

    def replace_versions(self, run: str = "") -> SinkUpdate | None:
        """Send the difference after an erasure: by what changed, values that were not sent yet would be sent first."""
        return self.update(run, whole=True) if self.look().has_rows else None

    def statements(self) -> list[str]:
        """What a run sends, as text."""
        names = ", ".join(self.identity.columns)
        sent = f"a record for each changed row to topic {self._target.name}, with {names} as its key"
        return ["BEGIN", f"send {sent}", f"send the version to topic {progress_topic(self._target.name)}", "COMMIT"]

    def state_of(self, marker: Marker | None, source: SourceRows, facts: Marker) -> TargetState:
        """Return how far the topic with these ``facts`` is; ``TableError`` if another sink writes it."""
        if marker and marker["sink"] != self.sink.name:
            message = f"Sink {self.sink.name}: {self.sink.to.place} is written by the sink {marker['sink']}"
            raise TableError(message, action="Choose another topic, or delete it and its topic of progress.")
        has_other_columns = marker is not None and marker["columns"] != column_texts(source)
        state = self._state(source.ledger, marker_progress(marker), has_other_columns=has_other_columns)
        if marker and marker["topic"] != facts["topic"]:
            state = state._replace(reason="the topic was created again")
        elif marker and marker["partitions"] != facts["partitions"]:
            message = f"Sink {self.sink.name}: {self.sink.to.place} has another number of partitions than before"
            action = (
                "Records of a row would be in two partitions. Delete it and its topic of progress, and run it again."
            )
            raise TableError(message, action=action)
        return state._replace(has_rows=marker is not None)

    @property
    def _target(self) -> ChangesTopic:
        return cast("ChangesTopic", self.sink.to)


class _Sending:
    """One run: the records to send, once older runs are fenced and the progress is certain."""

    def __init__(self, delivery: TopicDelivery, facts: Marker, run: str, reason: str | None) -> None:
        self._delivery, self._facts, self._run, self._reason = delivery, facts, run, reason
        self._contents: TopicContents | None = None
        self._is_first = False
        self.written = self.deleted = 0
        self.has_sent = False

    def needs_contents(self, marker: Marker | None) -> bool:
        """Read the table, which has no older version than the topic now."""
        self.source = self._delivery.source()
        state = self._delivery.state_of(marker, self.source, self._facts)
        self.state = state._replace(reason=self._reason or state.reason)
        self._is_first = marker is None
        self.consumed = version_to_consume(self.source.ledger)
        if self.state.reason:
            self._delivery.announce(self.state)
            self._contents = TopicContents(self._delivery.settings)
        return self._contents is not None

    def add_contents(self, records: Pairs) -> None:
        """Take records that the topic holds. ``TableError`` if no sink ever sent to it."""
        if self._is_first:
            sink = self._delivery.sink
            message = f"Sink {sink.name}: {sink.to.place} has records that no sink sent"
            raise TableError(message, action="Choose another topic.")
        if self._contents:
            self._contents.add(records)

    def steps(self) -> Iterator[Step]:
        """Yield what to send; nothing if the topic has the newest version."""
        if self._contents:
            yield from self._comparison(self._contents)
        elif not self.state.consumption.is_current:
            yield from self._changes()

    def close(self) -> None:
        """Drop what was read of the topic."""
        if self._contents:
            self._contents.close()

    def _comparison(self, contents: TopicContents) -> Iterator[Step]:
        """Send the difference in parts; only the last transaction has the version, so a run that dies is repeated."""
        with self.source.open(None) as batches:
            contents.add_rows((change.key, change.value) for change in changes_of(batches, self.source))
        differences = (Change(key, value) for key, value in contents.differences())
        while part := [*islice(differences, _RECORDS)]:
            yield Step(map(self._record, part), lambda: self._marker(None))
        self.has_sent = True
        yield Step((), lambda: self._marker(self.consumed))

    def _changes(self) -> Iterator[Step]:
        version = None
        with self.source.open(self.state.consumption.version, each_version=True) as batches:
            changes = changes_of(batches, self.source)
            following = next(changes, None)

            def whole_versions() -> Iterator[RawRecord]:
                nonlocal following, version
                count = 0
                while following and (count < _RECORDS or following.version == version):
                    version, count = following.version, count + 1
                    yield self._record(following)
                    following = next(changes, None)

            while following:
                yield Step(whole_versions(), lambda: self._marker(self._consumed_at(version)))
        self.has_sent = True
        if version != self.consumed.version:
            yield Step((), lambda: self._marker(self.consumed))

    def _record(self, change: Change) -> RawRecord:
        self.written += change.value is not None
        self.deleted += change.value is None
        ledger = self.source.ledger
        version = ledger.rows_version if change.version is None else change.version
        headers = (("lakehouse.version", str(version).encode()), ("lakehouse.table_id", ledger.table_id.encode()))
        return RawRecord(change.value, change.key, headers)

    def _consumed_at(self, version: int | None) -> Consumed:
        if version is None or version == self.consumed.version:
            return self.consumed
        info = read_commit(self.source.ledger.uri, version)
        return self.consumed.model_copy(update={"version": version, "commit": identity_of(info) if info else None})

    def _marker(self, consumed: Consumed | None) -> Marker:
        progress = consumed.model_dump() if consumed else None
        sink, columns = self._delivery.sink.name, column_texts(self.source)
        return {"sink": sink, "consumed": progress, "columns": columns, "run": self._run, **self._facts}


def changes_of(batches: Iterable[pa.RecordBatch], source: SourceRows) -> Iterator[Change]:
    """Yield rows and changes of rows as records: JSON, with decimals as text and bytes in base64."""
    identity = source.identity.columns
    for batch in batches:
        columns = {name: python_values(batch.column(name)) for name in source.columns}
        versions = batch.column(VERSION).to_pylist() if VERSION in batch.schema.names else [None] * len(batch)
        gone_marks = batch.column(GONE).to_pylist()
        for number, (is_gone, version) in enumerate(zip(gone_marks, versions, strict=True)):
            key = json_line({name: columns[name][number] for name in identity}).rstrip().encode()
            row = {name: values[number] for name, values in columns.items()}
            yield Change(key, None if is_gone else json_line(row).rstrip().encode(), version)


def column_texts(source: SourceRows) -> dict[str, str]:
    """Return the columns of the target with their types, as text."""
    return {name: str(type_) for name, type_ in source.columns.items()}
