"""Random histories of a compacted topic whose tombstones delete rows: a real broker compacts it if a step says so.

Either the table has the newest value of each key, or the merge stops, because a tombstone may be gone. Then the rows
whose keys are gone are deleted.
"""

import time
from collections.abc import Callable
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Deletes, RecordKey, StreamTable, Tombstone, Topic
from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import Request, merge_all, plan_next
from lakehouse.ingest.missing_keys import delete_missing, find_missing_keys
from lakehouse.ingest.outcomes import Outcome
from lakehouse.kafka import read_topic
from lakehouse.ledger.audit import audit
from lakehouse.operations.repair import propose_gap, record
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.table_context import TableContext, merged_ledger
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.brokers.streams import unique_table
from lakehouse_tests.helpers.histories.file_histories import RunDiedError
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.waiting import wait_until

Letters = list[tuple[str, int | None]]
"""The key and the amount of each record; without an amount, it is a tombstone."""
LETTERS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, None, None])), min_size=1, max_size=4)
KEPT = 2.0  # seconds for which the topic keeps tombstones
FILLER = "filler"  # the key of records that make the broker compact those before them
NEVER, ALWAYS = "1.0", "0.0"  # the share of records to compact that makes the broker begin


def table_of(name: str, topic: str) -> StreamTable:
    columns = [Column("id", "STRING", "Id.", source=RecordKey(), required=True), Column("amount", "INT", "Amount.")]
    return StreamTable(
        name,
        source=Topic(topic, partitions=1),
        doc="Amounts.",
        columns=columns,
        key=["id"],
        deletes=Deletes(when=Tombstone()),
    )


class CompactionHistories(RuleBasedStateMachine):
    """One new topic and its table; a subclass sets ``spark``, ``server``, ``make_folder`` and ``on_step``."""

    spark: SparkSession
    server: OneServer
    make_folder: Callable[[], Path]
    on_step: Callable[[], None]

    @initialize(letters=LETTERS)
    def begin(self, letters: Letters) -> None:
        self.topic = unique_table().topic
        address = bootstrap_servers(self.server.settings)
        self.settings = Settings(home=type(self).make_folder(), kafka_bootstrap_servers=address, _env_file=None)
        self.newest: dict[str, int | None] = {}
        self.arrivals: list[float] = []  # of each record
        self.caught_up = 0.0  # when a merge that reached the end of the topic began
        self.compacted_end = 0  # the records before it may be gone
        self._configure(ConfigResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "50"})
        topic = NewTopic(self.topic, 1, 1, topic_configs=self._topic_configs(NEVER))
        with_client(AIOKafkaAdminClient, self.settings, lambda admin: admin.create_topics([topic]))
        self.table = table_of(unique_table().name, self.topic)
        self.send([("a", 1)])
        self.merge(dies=False)
        self.send_and_merge_after_deletes_are_gone(letters, dies=False)

    @rule(letters=LETTERS)
    def send(self, letters: Letters) -> None:
        async def send_all(producer: AIOKafkaProducer) -> None:
            for key, amount in letters:
                value = None if amount is None else f'{{"amount": {amount}}}'.encode()
                await producer.send_and_wait(self.topic, value, key=key.encode())

        self.arrivals += [time.time()] * len(letters)
        with_client(AIOKafkaProducer, self.settings, send_all, acks="all")
        self.newest |= dict(letters)

    @rule(letters=LETTERS, dies=st.booleans())
    def send_and_merge(self, letters: Letters, dies: bool) -> None:
        self.send(letters)
        self.merge(dies=dies)

    @rule(letters=LETTERS, dies=st.booleans())
    def send_and_merge_after_deletes_are_gone(self, letters: Letters, dies: bool) -> None:
        """Send a tombstone for a key with a value, if there is one; when a merge reads the topic, it is gone."""
        keys = [key for key, amount in self.newest.items() if amount is not None and key != FILLER]
        self.send([*letters, *((key, None) for key in keys[:1])])
        self.compact()
        self.let_time_pass()
        self.compact()
        self.merge(dies=dies)

    @rule()
    def let_time_pass(self) -> None:
        time.sleep(KEPT + 0.2)

    @rule()
    def compact(self) -> None:
        """Let the broker compact all records, and remove the tombstones that it has seen for long enough."""
        end = len(self.arrivals)
        self._configure(ConfigResourceType.TOPIC, self.topic, self._topic_configs(ALWAYS))
        assert wait_until(lambda: self._send_filler() and self._cleaned_end() >= end, 60)
        self._configure(ConfigResourceType.TOPIC, self.topic, self._topic_configs(NEVER))
        time.sleep(0.3)  # until the broker applies it
        self.compacted_end = len(self.arrivals)

    def _send_filler(self) -> bool:
        """Close the segment of the records before it: only closed ones are compacted."""
        time.sleep(0.1)
        self.send([(FILLER, 0)])
        return True

    def _cleaned_end(self) -> int:
        """The offset up to which the broker has compacted the topic, as it notes itself."""
        checkpoint = self.server.data / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        return max((int(line.split()[2]) for line in lines if line.startswith(f"{self.topic} 0 ")), default=0)

    def _topic_configs(self, share: str) -> dict[str, str]:
        deletes_kept = str(int(KEPT * 1000))
        configs = {"cleanup.policy": "compact", "segment.ms": "50", "delete.retention.ms": deletes_kept}
        return {**configs, "min.cleanable.dirty.ratio": share}

    def _configure(self, kind: ConfigResourceType, name: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(kind, name, configs)
        with_client(AIOKafkaAdminClient, self.settings, lambda admin: admin.alter_configs([resource]))

    @property
    def progress(self) -> int:
        progress = merged_ledger(self.settings, self.table).progress
        return progress.next_position(0) if progress else 0

    @rule(dies=st.booleans())
    def merge(self, *, dies: bool) -> None:
        """Merge everything, or die after a batch of two offsets. A table whose merge stops is repaired."""
        context, start, begin = TableContext(self.spark, self.settings, self.table), self.progress, time.time()

        def die(_: Outcome) -> None:
            if dies:
                raise RunDiedError

        self.preview_state()
        try:
            merge_all(context, Request(2 if dies else None), on_batch=die)
        except RunDiedError:
            return
        except DataLossError as error:
            self.expect_stop(error, start)
            self.repair(context)
        self.caught_up = begin
        rows = {row["id"]: row["amount"] for row in rows_of(self.settings, self.table.name)}
        assert rows == {key: amount for key, amount in self.newest.items() if amount is not None}

    def repair(self, context: TableContext) -> None:
        """Accept the loss and delete the rows whose keys are gone; another loss may be near if all is slow."""
        proposal = propose_gap(self.settings, self.table)
        if proposal:
            record(context, proposal)
        try:
            merge_all(context)
        except DataLossError:
            self.repair(context)
            return
        missing_keys = find_missing_keys(context)
        if missing_keys.count:
            delete_missing(context, missing_keys)

    def expect_stop(self, error: DataLossError, start: int) -> None:
        """Check that a table stops only if records wait, and the first of them is gone or has waited for long."""
        assert "delete.retention.ms" in str(error)
        assert start < len(self.arrivals), "a table that is caught up has stopped"
        since = self.arrivals[start] if start >= self.compacted_end else self.caught_up
        assert time.time() - since >= KEPT, "no record has waited for long"

    @rule()
    def preview_state(self) -> None:
        start = self.progress
        assert read_topic(self.settings, self.topic).end[0] == len(self.arrivals)
        try:
            plan_next(self.settings, self.table)
        except DataLossError as error:
            self.expect_stop(error, start)

    @invariant()
    def ledger_is_accounted(self) -> None:
        if hasattr(self, "table"):
            ledger = merged_ledger(self.settings, self.table)
            assert all(finding.passed for finding in audit(ledger))
            type(self).on_step()
