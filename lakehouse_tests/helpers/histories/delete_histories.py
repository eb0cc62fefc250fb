"""Random histories of tables with deletes and truncates: no older record, replay or restore brings a row back."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from lakehouse.declaration import Deletes, FieldIs, StreamTable
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request
from lakehouse.ingest.horizon import purge_deletes
from lakehouse.ingest.outcomes import Outcome
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.dying_deletes import DiedError, dying_after_deletes
from lakehouse_tests.helpers.histories.histories import Histories
from lakehouse_tests.helpers.histories.model_values import Partition, Rules
from lakehouse_tests.helpers.histories.surroundings import Letter, declare_table, letters

_letters = st.builds(
    replace, letters, deletes=st.sampled_from([False, False, True]), truncates=st.sampled_from([*[False] * 9, True])
)
LETTERS = st.lists(_letters, min_size=1, max_size=8)
PERIOD = timedelta(days=30)


class DeleteHistories(Histories):
    """One new table with deletes and its topic; a subclass sets ``parts``."""

    @initialize(sent_letters=LETTERS)
    def begin(self, sent_letters: list[Letter]) -> None:
        Histories.begin(self)
        self.send_and_merge(sent_letters, 0, None)

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        deletes, truncates = FieldIs("operation", ["DELETE"]), FieldIs("operation", ["TRUNCATE"])
        return replace(declare_table(rules, like), deletes=Deletes(when=deletes, truncates=truncates))

    @rule(sent_letters=LETTERS, partition=st.integers(0, 3))
    def send(self, sent_letters: list[Letter], partition: int) -> None:
        Histories.send(self, sent_letters, partition)

    @rule(sent_letters=LETTERS, partition=st.integers(0, 3), size=st.sampled_from([None, None, 3, 5]))
    def send_and_merge(self, sent_letters: list[Letter], partition: int, size: int | None) -> None:
        Histories.send_and_merge(self, sent_letters, partition, size)

    @rule(sent_letters=LETTERS, partition=st.integers(0, 3), size=st.sampled_from([None, 1, 2]))
    def die_after_the_deletes(self, sent_letters: list[Letter], partition: int, size: int | None) -> None:
        """A batch dies after it stored new deletes; the next batch is smaller, and its deletes alone count."""
        self.send(sent_letters, partition)
        self.merge_base_alone()

        outcomes, dies = list[Outcome](), False
        with dying_after_deletes():
            try:
                batches.merge_all(TableContext(self.spark, self.settings, self.table), on_batch=outcomes.append)
            except DiedError:
                dies = True
        for outcome in outcomes:
            self.expect_batch(outcome)
        if dies:
            self.note_truncate()
        self.merge(size)

    def note_truncate(self) -> None:
        """Record the truncate of the batch that died, if it was committed."""
        progress, before = self.progress(), self.model.now.truncate
        unmerged = [rows for p, sent in self.model.topic.items() for rows in sent[progress[p] :]]
        if self.model.moment_of_truncate(self.model.passing(unmerged)):
            self.model.committed(self.tables.version)
        else:
            self.model.now.truncate = before

    def merge_base_alone(self) -> None:
        """Merge the base rows before a batch that dies, because they are a commit of their own."""
        outcomes = batches.merge_all(TableContext(self.spark, self.settings, self.table), Request(topic="no topic"))
        self.expect_base(outcomes)
        assert not outcomes

    def progress(self) -> dict[Partition, int]:
        return {partition: self.model.now.progress.get(partition, 0) for partition in self.model.topic}


class PurgeHistories(DeleteHistories):
    """A table whose old deletes are purged, and which has no base rows."""

    reload_base = None  # type: ignore[assignment]

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        table = DeleteHistories.make_table(rules, like)
        return replace(table, base=None, deletes=replace(table.deletes, purge=PERIOD))

    @precondition(lambda self: self.model.now.deletes)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        """Purge as if a moment between two records were the begin of the period."""
        times = sorted({row.broker_time for sent in self.model.topic.values() for rows in sent for row in rows})
        begin = data.draw(st.sampled_from(times), label="begin")
        version = self.tables.version
        purge_deletes(TableContext(self.spark, self.settings, self.table), begin + PERIOD)
        assert self.model.purge(begin) == (self.tables.version > version)
        self.model.committed(self.tables.version)
