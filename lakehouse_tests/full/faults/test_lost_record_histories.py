"""Random histories of topics that lose records: at their end, and by compaction."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from lakehouse_tests.helpers.attacks.reliability import Attack
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.histories.compaction_histories import CompactionHistories
from lakehouse_tests.helpers.histories.tail_histories import TailHistories

STEPS = 15
DRAWN_HISTORIES = settings(
    max_examples=3,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=False,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


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
        run_state_machine_as_test(CountedHistories, settings=DRAWN_HISTORIES, _min_steps=STEPS)
