"""A declaration that accepts gaps, run by Dagster: the requested run records the gap and continues."""

import os
from collections.abc import Iterator

import dagster as dg
import pytest

from lakehouse.ingest.batches import merge_all
from lakehouse.kafka import publish, read_topic
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.dagster_runs import FIRST, SECOND, Lakehouse, facts

pytestmark = pytest.mark.invariant("9.4", "9.6")


@pytest.fixture
def lakehouse(spark, broker, tmp_path) -> Iterator[Lakehouse]:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Lakehouse(settings, instance, f"gaps-{os.getpid()}", gaps="accept")


def test_a_run_of_the_sensor_records_the_gap_and_continues(lakehouse, spark):
    settings, table = lakehouse.settings, lakehouse.table
    publish(settings, table, SECOND)
    merge_all(TableContext(spark, settings, table))
    merged_ends = read_topic(settings, table.topic).end
    publish(settings, table, FIRST)
    expired_ranges = tuple(Range(p, offset, offset + 1) for p, offset in merged_ends.items())
    delete_before(settings, table.topic, {gap_range.partition: gap_range.end for gap_range in expired_ranges})
    context = dg.build_sensor_context(lakehouse.instance, resources=lakehouse.resources)
    with context:
        (request,) = lakehouse.defs.resolve_sensor_def("temperatures_sensor").evaluate_tick(context).run_requests
    run_facts = facts(lakehouse.run("merge_temperatures", request.run_config))["temperatures"]
    remaining_count = len(FIRST) - len(expired_ranges)
    assert (run_facts["gaps"], run_facts["batches"], run_facts["lag_after"]) == (1, 1, 0)
    assert run_facts["records_read"] == remaining_count
    batch, gap, _ = TableContext(spark, settings, table).ledger().entries
    assert (batch.commit.kind, gap.commit.kind, gap.commit.run) == ("batch", "gap", batch.commit.run)
    assert gap.commit.gap == expired_ranges
