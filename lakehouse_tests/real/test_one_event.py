"""The alarm check is reported if its result changed, and not if only a figure in its text changed."""

import pytest

from lakehouse.errors import DataLossError
from lakehouse.kafka import publish, read_topic
from lakehouse.ledger.commits import Commit
from lakehouse_tests.helpers.dagster_runs import LINES
from lakehouse_tests.helpers.sensors import MERGED, World, write_log

pytestmark = pytest.mark.invariant("12.3")


def test_a_changed_figure_alone_is_not_reported_again(world: World) -> None:
    topic_state = read_topic(world.settings, world.table.topic)
    progress = dict.fromkeys(topic_state.end, 1_000)
    write_log(world.log, Commit(**MERGED, source=topic_state.source, progress=progress))
    messages = []
    for _ in range(2):
        publish(world.settings, world.table, LINES)
        messages.append(world.fails(DataLossError))
    assert messages[0] != messages[1]
    assert world.evaluations == [(False, messages[0])]


def test_another_error_is_reported(world: World) -> None:
    state = read_topic(world.settings, world.table.topic)
    write_log(world.log, Commit(**MERGED, source=state.source, progress=dict.fromkeys(state.end, 1_000)))
    world.fails(DataLossError)
    (world.log / f"{0:020}.json").write_text("{")
    with pytest.raises(Exception, match="log"):
        world.tick()
    assert len(world.evaluations) == 2
