"""A table at the end of a Structured Streaming query: each micro-batch says how far to merge its topics."""

import logging
from collections.abc import Callable
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from lakehouse.declaration import StreamTable
from lakehouse.derived.refresh import refresh_all, refresh_and_retry
from lakehouse.errors import DeclarationError, SetupError, TopicError
from lakehouse.ingest import micro_batches
from lakehouse.ingest.batches import Request, merge_all
from lakehouse.ingest.topics import split_context
from lakehouse.ledger.commit_infos import awaited_by_stream
from lakehouse.settings import Settings
from lakehouse.spark.own_session import activate, is_classic, keep_exact, restore_active_state
from lakehouse.spark.sessions import build_session
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.statement import is_abandoned
from lakehouse.storage.table_context import TableContext, retry_on_conflict

_log = logging.getLogger(__name__)
_TURN = Lock()  # the active session belongs to the process: queries of one process take turns


def foreach_batch(
    table: StreamTable, settings: Settings | None = None, *, only_merged: bool = False
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``writeStream.foreachBatch`` that merges a topic into a table, as far as a query has come.

    The query reads the topics of the table with Spark's Kafka source, and passes its columns unchanged. For each
    partition of a micro-batch, the table merges from its own progress to the last offset of the micro-batch: it reads
    that range from the broker of the settings, as ``lakehouse merge`` does. Offsets before the progress are not merged
    again, and records between the progress and the micro-batch are merged too; a warning of the log names both. A
    second call with the same micro-batch changes nothing. Then the change feed and the rollups are refreshed, unless
    ``only_merged`` is true. ``settings`` are those of the environment by default.

    Raises ``DeclarationError`` if the table does not read topics, and ``SetupError`` over Spark Connect. The function
    raises ``LakehouseError`` if the columns differ, ``TopicError`` if the query reads other topics, and what a merge
    raises, such as ``DataLossError``: the query then stops at this micro-batch.
    """
    if not table.has_topics:
        raise DeclarationError(
            f"Table {table.name} does not read a topic, so a streaming query cannot feed it",
            where=table.place_text,
            action=f"Merge it: lakehouse merge {table.name}",
        )
    if is_remote():
        raise _connect_error()
    return _MicroBatchMerger(table, settings or Settings.load(), only_merged)


class _MicroBatchMerger:
    """Merges the micro-batches of a query into one table, in a session of its own."""

    def __init__(self, table: StreamTable, settings: Settings, only_merged: bool) -> None:
        self._table, self._settings = table, settings
        self._is_refreshed = only_merged
        self._refreshes = not only_merged
        self._session: SparkSession | None = None
        self._compared_topics = set[str]()
        self._waiting: dict[str, dict[int, int]] | None = None  # ends in open transactions, by topic; None if unknown

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        if not is_classic(records.sparkSession):
            raise _connect_error()
        parts_by_topic = micro_batches.read_parts(records)
        with _TURN, restore_active_state():
            context = TableContext(self._open_session(), self._settings, self._table, "foreach_batch")
            with spark_failures():
                self._merge(context, parts_by_topic, f"Micro-batch {batch_id}")
                self._refresh(context)

    def _open_session(self) -> SparkSession:
        if self._session is None or is_abandoned(self._session):
            self._session = build_session(self._settings)
        else:
            keep_exact(self._session)
        activate(self._session)
        return self._session

    def _merge(
        self, context: TableContext, parts_by_topic: dict[str, list[micro_batches.MicroBatchPart]], name: str
    ) -> None:
        if self._waiting is None:  # an earlier process may have waited
            newest = context.ledger().newest
            self._waiting = awaited_by_stream(newest.commit if newest else None)
        if not parts_by_topic and not any(self._waiting.values()):
            return
        topic_contexts = {part.table.topic: part for part in split_context(context)}
        for topic in parts_by_topic:
            if topic not in topic_contexts:
                raise TopicError(
                    f"The query reads topic {topic!r}, which table {self._table.name} does not read",
                    where=self._table.place_text,
                    action="Nothing was merged. The table reads"
                    f" {self._table.topic_text}: subscribe the query to that alone.",
                )
        for topic, topic_context in topic_contexts.items():
            parts = parts_by_topic.get(topic, [])
            waiting = self._waiting.get(topic, {})
            if parts or waiting:
                ends = {part.range.partition: part.range.end for part in parts}
                ends |= {p: max(end, ends.get(p, end)) for p, end in waiting.items()}
                log_name = f"{name} of {self._table.name}, topic {topic}"
                self._waiting[topic] = self._merge_topic(context, topic_context, parts, ends, log_name)

    def _merge_topic(
        self,
        context: TableContext,
        topic_context: TableContext,
        parts: list[micro_batches.MicroBatchPart],
        ends: dict[int, int],
        name: str,
    ) -> dict[int, int]:
        """Merge one topic up to these ends; return those that wait for a transaction, which a commit then records."""
        topic = topic_context.table.topic
        batch = micro_batches.plan_micro_batch(topic_context, ends)
        if parts and topic not in self._compared_topics:
            micro_batches.require_same_records(self._settings, batch.state, parts)
            self._compared_topics.add(topic)
        if text := micro_batches.describe_merged(batch.plan, parts):
            _log.warning("%s: merged or left out before, and not merged again: %s", name, text)
        if text := micro_batches.describe_earlier(self._settings, batch.plan, parts):
            _log.warning("%s: records before the micro-batch are merged too: %s", name, text)
        if not batch.plan.is_idle:
            self._is_refreshed = not self._refreshes
            request = Request(until=batch.ends, topic=topic)
            for outcome in refresh_and_retry(context, lambda: merge_all(context, request)):
                _log.info("%s: %s", name, outcome)
        waiting = micro_batches.find_waiting(batch.state, ends)
        if waiting:
            _log.warning("%s: records of an open transaction are merged once it is committed", name)
            retry_on_conflict(lambda: micro_batches.record_waiting(topic_context, batch.plan, waiting))
        return waiting

    def _refresh(self, context: TableContext) -> None:
        """Refresh the derived tables, also if a merge of an earlier process was not followed by it."""
        if not self._is_refreshed and context.ledger().exists:
            refresh_all(context)
            self._is_refreshed = True


def _connect_error() -> SetupError:
    return SetupError(
        "foreach_batch needs a Spark of this process: over Spark Connect, the function of foreachBatch runs on the"
        " server, in a process without the settings and locks of this one",
        where="Spark Connect",
        action="Start the query in a classic session, or use lakehouse follow, which merges over Spark Connect.",
    )
