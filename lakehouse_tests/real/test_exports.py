"""Exports follow tables that Spark and deltalake merge: their versions, applied once, give the rows of the table."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Day, Deletes, Export
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.exports.exporter import Exporter
from lakehouse.exports.manifests import read_manifest, read_newest
from lakehouse.kafka import publish
from lakehouse.operations.maintain import maintain
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.spark_writer import run_restore
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.maintained_streams import MaintainedStream
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, record
from lakehouse_tests.helpers.dagster_runs import FIRST, SECOND, facts
from lakehouse_tests.helpers.tables.exported import read_version
from lakehouse_tests.helpers.tables.tables import redeclare

KEY = ("latitude", "longitude", "observed_at")
REMOVED = ("delete", "update_preimage")


def exporter_of(stream: Stream, of: str = "", **options: Any) -> Exporter:
    """An export of a table of the stream, by default of the merged one."""
    settings = stream.settings.model_copy(update={"exports": stream.settings.home_folder / "exports"})
    return Exporter(settings, Export(f"e_{uuid4().hex[:12]}", of=of or stream.table.name, **options))


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def applied(exporter: Exporter) -> dict[tuple[Any, ...], Any]:
    """The temperature of each key, after each version since the last whole one was applied once."""
    newest, rows = read_newest(exporter.folder), dict[tuple[Any, ...], Any]()
    assert newest is not None
    since = None
    for number in range(newest.first, newest.version + 1):
        manifest = read_manifest(exporter.folder, number)
        assert manifest.since_version == since
        since = manifest.consumed.version
        changes = read_version(exporter.folder, number)
        for row in sorted(changes, key=lambda row: (row["_commit_version"], row["_change_type"] not in REMOVED)):
            if row["_change_type"] in REMOVED:
                assert rows.pop(key_of(row)) == row["temperature_2m"]
            else:
                assert key_of(row) not in rows
                rows[key_of(row)] = row["temperature_2m"]
    return rows


def rows_of(stream: Stream) -> dict[tuple[Any, ...], Any]:
    rows = stream.spark.read.format("delta").load(stream.uri).select(*KEY, "temperature_2m").toArrow().to_pylist()
    return {key_of(row): row["temperature_2m"] for row in rows}


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> MaintainedStream:
    return MaintainedStream.create(spark, broker, deletes=Deletes(when=DELETES))


@pytest.mark.invariant("10.12")
@pytest.mark.parametrize("spark_writes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_versions_of_an_export_add_up_to_the_merged_table(stream: MaintainedStream, *, spark_writes: bool) -> None:
    first, second, third, fourth = stream.hours(4)
    exporter = exporter_of(stream, changes=True, by=Day("observed_at"))
    with by_spark(spark_writes):
        stream.send_and_merge(record(time=first, temperature_2m=1.0), record(time=second))
        assert exporter.update().kind == "whole"
        stream.send_and_merge(record(time=first, temperature_2m=1.5), record(time=third))
        stream.send_and_merge(delete(second), record(time=fourth, temperature_2m=None))
        assert exporter.update().kind == "changes"
        assert applied(exporter) == rows_of(stream)
        stream.maintain()
        assert exporter.update().kind is None
        stream.send_and_merge(delete(first), record(time=second, temperature_2m=9.0))
        update = exporter.update()
    assert (update.version, update.rows) == (3, 2)
    assert applied(exporter) == rows_of(stream)


@pytest.mark.invariant("10.12")
def test_the_changes_of_a_feed_are_its_new_rows(stream: MaintainedStream) -> None:
    (first,) = stream.send_hours(1)
    stream.merge()
    stream.refresh()
    exporter = exporter_of(stream, of=stream.table.changes_name, changes=True, format="jsonl")
    whole = exporter.update()
    stream.send_and_refresh(record(time=first, temperature_2m=3.25))
    update = exporter.update()
    assert (update.kind, update.rows) == ("changes", 1)
    (row,) = read_version(exporter.folder)
    assert (row["change"], row["temperature_2m_after"], row["_change_type"]) == ("update", 3.25, "insert")
    assert whole.rows + update.rows == stream.sql("SELECT count(*) FROM {changes}")[0][0]
    assert exporter.update().kind is None


@pytest.mark.slow
@pytest.mark.invariant("10.12")
def test_a_restored_table_stops_the_changes(stream: MaintainedStream) -> None:
    stream.merge_hours(1)
    exporter = exporter_of(stream, changes=True)
    exporter.update()
    version = stream.ledger.version
    (removed_hour,) = stream.send_hours(1)
    stream.merge()
    run_restore(stream.spark, stream.context.merged.layout, version)
    with pytest.raises(TableError, match=rf"cannot continue: version \d+ is a RESTORE.*{exporter.export.name} --whole"):
        exporter.update()
    assert exporter.update(whole=True).version == 2
    stream.send_and_merge(record(time=removed_hour))
    exporter.update()
    assert applied(exporter) == rows_of(stream)


@pytest.mark.slow
@pytest.mark.invariant("10.9")
def test_vacuum_waits_for_an_enabled_export_and_names_it(spark: SparkSession, broker: Settings) -> None:
    stream = MaintainedStream.create(spark, broker)
    (hour,) = stream.send_hours(1)
    stream.merge()
    exporter = exporter_of(stream, changes=True)
    exporter.update()
    stream.send_and_refresh(record(time=hour, temperature_2m=1.0))
    stream.set_retention(timedelta(seconds=1))
    context = replace(stream.context, settings=exporter.settings)
    for _ in range(2):
        merged, *_ = maintain(context, outlets=[exporter.export])
        reason = f"export {exporter.export.name} has read {stream.table.name} only up to version"
        assert reason in (merged.kept or "")
        assert (merged.idle, merged.removed) == (False, None)
    assert exporter.update().kind == "changes"
    assert applied(exporter) == rows_of(stream)
    merged, *_ = maintain(context, outlets=[exporter.export])
    assert (merged.kept, merged.removed is not None) == (None, True)
    stream.send_and_merge(record(time=hour, temperature_2m=2.0))
    merged, *_ = maintain(context, outlets=[replace(exporter.export, enabled=False)])
    assert merged.kept is None


@pytest.mark.slow
@pytest.mark.invariant("10.11")
def test_a_run_of_all_assets_exports_what_it_merged(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory, instance: dg.DagsterInstance
) -> None:
    settings = Settings(home=tmp_path_factory.mktemp("home"), kafka_bootstrap_servers=bootstrap_servers(broker))
    table = redeclare(temperatures, topic=f"exports-{uuid4().hex[:8]}", base=None, references=())
    export = Export("temperature_changes", of="temperatures", changes=True, by=Day("observed_at"))
    definitions = build_defs([table, export], {"lakehouse": LakehouseResource.with_settings(settings)})
    exporter = Exporter(settings, export)
    for lines, kind in ((FIRST, "whole"), (SECOND, "changes")):
        publish(settings, table, lines)
        job = definitions.resolve_job_def("__ASSET_JOB")
        metadata = facts(job.execute_in_process(instance=instance))
        figures = metadata["temperature_changes"]
        assert (figures["published"], figures["lag_versions"]) == (kind, 0)
        assert figures["consumed_version"] == metadata["temperatures"]["table_version"]
        assert len(applied(exporter)) == metadata["temperatures"]["dagster/row_count"]
