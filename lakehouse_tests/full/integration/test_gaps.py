"""A declaration that accepts gaps, as Dagster runs it: a run is asked for, records the gap and goes on."""

import os

import dagster as dg
import pytest

from lakehouse.ingest import Engine, merge_all
from lakehouse.local.broker import bootstrap_servers
from lakehouse.repair import propose_gap
from lakehouse.settings import Settings
from lakehouse.topic import create_topic, delete_topic, publish
from lakehouse_tests.helpers.dagster_runs import FIRST, SECOND, Lakehouse, facts
from lakehouse_tests.helpers.streams import Stream

pytestmark = pytest.mark.invariant(9)


@pytest.fixture
def accepting(spark, broker, tmp_path) -> Lakehouse:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Lakehouse(settings, instance, f"gaps-{os.getpid()}", gaps="accept")


def test_the_run_that_the_sensor_asks_for_records_the_gap_and_goes_on(accepting, spark):
    settings, table = accepting.settings, accepting.table
    publish(settings, table, SECOND)
    merge_all(spark, settings, table)
    delete_topic(settings, table.topic)
    create_topic(settings, table)
    publish(settings, table, FIRST)
    context = dg.build_sensor_context(accepting.instance, resources=accepting.resources)
    with context:
        (request,) = accepting.defs.resolve_sensor_def("temperatures_sensor").evaluate_tick(context).run_requests
    merged = facts(accepting.run("merge_temperatures", request.run_config))["temperatures"]
    assert (merged["gaps"], merged["batches"], merged["read"], merged["lag_after"]) == (1, 1, len(FIRST), 0)
    batch, gap, _ = Engine(spark, settings, table).ledger().entries
    assert (batch.commit.kind, gap.commit.kind, gap.commit.run) == ("batch", "gap", batch.commit.run)
    assert [part.span for part in gap.commit.gap] == [0, 0, 0], "of a topic that is no more, no end is known"


def test_without_a_gap_there_is_nothing_to_accept(spark, broker):
    stream = Stream.create(spark, broker)
    assert propose_gap(broker, stream.table) is None
