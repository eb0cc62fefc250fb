"""Random histories of topics that lose records: at their end, and by compaction."""

from pathlib import Path

import pytest

from lakehouse_tests.helpers.attacks.reliability import Attack
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.histories.compaction_histories import CompactionHistories
from lakehouse_tests.helpers.histories.drawn_histories import run_histories
from lakehouse_tests.helpers.histories.tail_histories import TailHistories

STEPS = 15
MACHINES = {TailHistories: "loses its end and grows again", CompactionHistories: "is compacted"}


@pytest.mark.invariant("9.1", "9.6", "9.14")
@pytest.mark.parametrize("machine", [*MACHINES] * 2, ids=["tail", "compaction"] * 2)
def test_a_topic_that_loses_records_is_never_read_wrongly_in_silence(
    request: pytest.FixtureRequest,
    fragile_broker: OneServer,
    tmp_path_factory: pytest.TempPathFactory,
    attack: Attack,
    machine: type[TailHistories | CompactionHistories],
) -> None:
    steps: list[None] = []
    session = request.getfixturevalue("spark") if machine is CompactionHistories else None

    class CountedHistories(machine):  # type: ignore[valid-type, misc]
        server = fragile_broker
        spark = session

        @staticmethod
        def make_folder() -> Path:
            return tmp_path_factory.mktemp("history")

        @staticmethod
        def on_step() -> None:
            steps.append(None)

    label = f"a step of a random history of a topic that {MACHINES[machine]}"
    with attack("Nothing is lost, doubled or silent", label, lambda: len(steps)):
        run_histories(CountedHistories, 3, STEPS)
