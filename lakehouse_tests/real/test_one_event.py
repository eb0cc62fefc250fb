"""The declared check is reported when the answer changed, and not when only a figure in its text moved."""

import pytest

from lakehouse.errors import DataLossError
from lakehouse.kafka import look, publish
from lakehouse.ledger.commits import Commit
from lakehouse_tests.helpers.dagster_runs import LINES
from lakehouse_tests.helpers.sensors import MERGED, World, write_log

pytestmark = pytest.mark.invariant(12)


def test_figures_that_move_while_records_flow_are_no_new_answer(world: World) -> None:
    beyond = look(world.settings, world.table.topic)
    progress = dict.fromkeys(beyond.end, 1_000)
    write_log(world.log, Commit(**MERGED, source=beyond.source, progress=progress))
    said = []
    for _ in range(2):
        publish(world.settings, world.table, LINES)
        said.append(world.fails(DataLossError))
    assert said[0] != said[1]
    assert world.evaluations == [(False, said[0])]


def test_another_fact_is_a_new_answer(world: World) -> None:
    state = look(world.settings, world.table.topic)
    write_log(world.log, Commit(**MERGED, source=state.source, progress=dict.fromkeys(state.end, 1_000)))
    world.fails(DataLossError)
    (world.log / f"{0:020}.json").write_text("{")
    with pytest.raises(Exception, match="log"):
        world.tick()
    assert len(world.evaluations) == 2
