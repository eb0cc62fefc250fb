"""Random histories in which keys are erased, tables are rebuilt, and merged records are read again, in turns."""

from dataclasses import replace
from itertools import cycle
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.operations.erase_rows import erase
from lakehouse.operations.rebuild_tables import Places, build_copies, switch
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.histories.corrections import ReadsAgain
from lakehouse_tests.helpers.histories.delete_histories import PurgeHistories
from lakehouse_tests.helpers.histories.histories import key_condition
from lakehouse_tests.helpers.histories.model_values import Key, Rules
from lakehouse_tests.helpers.histories.surroundings import HOT, KEYS, RULES, letters

FEW_KEYS = KEYS[:3]
WIDE, NARROW = Rules(hottest=100.0, rejects_late=False), Rules()
_letters = st.builds(
    replace,
    letters,
    key=st.sampled_from(FEW_KEYS),
    temperature=st.sampled_from([20.0, HOT, HOT]),
    deletes=st.sampled_from([False, False, False, True]),
)
LETTERS = st.lists(_letters, min_size=4, max_size=8)


class ErasedHistories(ReadsAgain, PurgeHistories):
    """A history of a table with deletes and without base rows; a subclass sets ``parts``."""

    rebuilt = 0

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    def erase(self, key: Key) -> None:
        erase(self.context, key_condition(key))
        self.model.erase(key)
        self.model.committed(self.tables.version)

    def replay_and_redrive(self) -> None:
        for outcome in replay(self.context):
            self._expect(outcome, self.model.replay(self.ranges_of(outcome)))
        for outcome in redrive(self.context):
            counts = self.model.redrive()
            assert counts
            self._expect(outcome, counts)

    def read_all_again(self) -> None:
        self.read_ranges_again(None, None)
        self.require_newest_records()

    def rebuild(self) -> None:
        """Rebuild the tables; the model begins again, and merges what the new table merged."""
        build_copies(self.context)
        switch(self.settings, self.table, Places.of(self.settings, self.table))
        former, self.model = self.model, self.new_model()
        self.model.rules, self.model.topic, self.model.times = former.rules, former.topic, former.times
        self.model.erased = former.erased
        for entry in reversed(self.tables.ledger().entries):
            if entry.commit.kind == "batch":
                ranges = {part.partition: (part.start, part.end) for part in entry.commit.ranges}
                self._expect(SimpleNamespace(entry=entry), self.model.batch(ranges))  # type: ignore[arg-type]
        self.model.committed(self.tables.version)
        self.compared = self.maintained = -1
        self.rebuilt += 1


def run_erasures(machine: type[ErasedHistories], rounds: int) -> ErasedHistories:
    """Merge drawn records by wide rules, erase a drawn key, and read the records in each way again by other rules.

    The same in each run.
    """
    part = st.tuples(LETTERS, st.sampled_from(FEW_KEYS), st.sampled_from([NARROW, NARROW, *RULES]))
    histories: list[ErasedHistories] = []

    @settings(
        max_examples=2,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(rounds)
    @given(st.lists(part, min_size=rounds, max_size=rounds))
    def run(parts: list[Any]) -> None:
        history = machine()
        histories.append(history)
        if len(histories) == 1:  # the simplest one, which is drawn first
            return
        history.begin(parts[0][0])
        ways = cycle([history.replay_and_redrive, history.rebuild, history.read_all_again])
        for (mail, key, rules), read_records in zip(parts, ways, strict=False):
            history.declare(WIDE)
            history.send_and_merge(mail, 0, None)
            history.erase(key)
            history.tables_equal_the_model()
            history.declare(rules)
            read_records()
            history.tables_equal_the_model()

    run()
    return histories[-1]
