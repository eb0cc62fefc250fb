"""A declaration that accepts gaps, as Dagster runs it: a run is asked for, records the gap and goes on."""

import os
from collections.abc import Iterator

import dagster as dg
import pytest

from lakehouse.ingest.batches import merge_all
from lakehouse.kafka import look, publish
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.dagster_runs import FIRST, SECOND, Lakehouse, facts

pytestmark = pytest.mark.invariant(9)


@pytest.fixture
def accepting(spark, broker, tmp_path) -> Iterator[Lakehouse]:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Lakehouse(settings, instance, f"gaps-{os.getpid()}", gaps="accept")


def test_the_run_that_the_sensor_asks_for_records_the_gap_and_goes_on(accepting, spark):
    settings, table = accepting.settings, accepting.table
    publish(settings, table, SECOND)
    merge_all(TableContext(spark, settings, table))
    merged_up_to = look(settings, table.topic).end
    publish(settings, table, FIRST)
    expired = tuple(Range(p, offset, offset + 1) for p, offset in merged_up_to.items())
    delete_before(settings, table.topic, {part.partition: part.end for part in expired})
    context = dg.build_sensor_context(accepting.instance, resources=accepting.resources)
    with context:
        (request,) = accepting.defs.resolve_sensor_def("temperatures_sensor").evaluate_tick(context).run_requests
    merged = facts(accepting.run("merge_temperatures", request.run_config))["temperatures"]
    left = len(FIRST) - len(expired)
    assert (merged["gaps"], merged["batches"], merged["read"], merged["lag_after"]) == (1, 1, left, 0)
    batch, gap, _ = TableContext(spark, settings, table).ledger().entries
    assert (batch.commit.kind, gap.commit.kind, gap.commit.run) == ("batch", "gap", batch.commit.run)
    assert gap.commit.gap == expired
