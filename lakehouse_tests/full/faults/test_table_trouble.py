"""Others change the tables, their history or the declaration: a run continues correctly or says what stops it."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Measure
from lakehouse.errors import LedgerError, TableError
from lakehouse.ingest.load import load_base
from lakehouse.kafka import delete_topic, read_topic
from lakehouse.operations import repair
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.brokers.clients import read_topic_records
from lakehouse_tests.helpers.brokers.streams import clean_log, hour, record
from lakehouse_tests.helpers.histories.upsets import assert_all_is_right, undo_afterwards
from lakehouse_tests.helpers.tables.base_files import base_folder

LOST, SILENT = "Nothing is lost", "Nothing is silent"
Rows = dict[str, float | None]


def sql_hour(number: int) -> str:
    return f"TIMESTAMP'{hour(number)}'"


def with_value(number: int, value: float) -> Callable[[Rows], Rows]:
    return lambda rows: {time: value if time == hour(number) else stored_value for time, stored_value in rows.items()}


def without_hour(number: int) -> Callable[[Rows], Rows]:
    return lambda rows: {time: value for time, value in rows.items() if time != hour(number)}


FOREIGN_COMMITS = {
    "UPDATE": (f"UPDATE {{t}} SET temperature_2m = 40 WHERE observed_at = {sql_hour(0)}", with_value(0, 40.0)),
    "DELETE": (f"DELETE FROM {{t}} WHERE observed_at = {sql_hour(1)}", without_hour(1)),
    "OPTIMIZE": ("OPTIMIZE {t}", lambda rows: rows),
    "INSERT": (
        "INSERT INTO {t} (latitude, longitude, observed_at, observed_month, temperature_2m)"
        " SELECT 13.0, 77.600006, max(observed_at) + INTERVAL 1 HOUR, DATE'2023-01-01', 3.0 FROM {t}",
        lambda rows: {**rows, next_hour(rows): 3.0},
    ),
    "INSERT OVERWRITE": (
        f"INSERT OVERWRITE {{t}} SELECT * FROM {{t}} WHERE observed_at <> {sql_hour(2)}",
        without_hour(2),
    ),
    "CREATE OR REPLACE": (
        "CREATE OR REPLACE TABLE {t} USING DELTA PARTITIONED BY (observed_month) AS SELECT * FROM {t}"
        f" WHERE observed_at <> {sql_hour(3)}",
        without_hour(3),
    ),
}
SINGLE_COMMITS = [(name,) for name in FOREIGN_COMMITS]
SEVERAL_COMMITS = [("UPDATE", "DELETE", "OPTIMIZE", "INSERT"), ("INSERT OVERWRITE", "CREATE OR REPLACE")]


def next_hour(rows: Rows) -> str:
    """The hour after the last one."""
    return f"{datetime.fromisoformat(max(rows)) + timedelta(hours=1):%Y-%m-%dT%H:%M}"


@pytest.fixture(scope="module")
def stream(spark, broker):
    """Four hours are merged and are in the feed and the rollup. Each test leaves every table correct."""
    stream = DeletingStream.create(spark, broker)
    stream.send_and_refresh(*(record(time=hour(number), temperature_2m=float(number)) for number in range(4)))
    return stream


@pytest.mark.invariant("1.9")
def test_after_foreign_commits_every_table_is_right(stream, attack):
    rows = stream.temperatures()
    for number, names in enumerate([*SEVERAL_COMMITS, *SINGLE_COMMITS, *SINGLE_COMMITS]):
        with attack(LOST, f"foreign commits between ours: {', '.join(names)}"):
            for name in names:
                statement, effect = FOREIGN_COMMITS[name]
                stream.sql(statement)
                rows = effect(rows)
            sent_values = {hour(1): 11.0 + number, max(rows): 5.0 + number, next_hour(rows): 9.0}
            stream.send_and_merge(*(record(time=time, temperature_2m=value) for time, value in sent_values.items()))
            rows |= sent_values
            assert stream.temperatures() == rows
            assert_all_is_right(stream)
        operations = " ".join(commit.operation for commit in stream.ledger.foreign)
        with attack(SILENT, f"foreign commits between ours: {', '.join(names)}"):
            assert all(name in operations for name in names if name in ("UPDATE", "DELETE", "CREATE OR REPLACE"))
    assert DeltaTable(stream.uri).metadata().configuration["delta.enableChangeDataFeed"] == "true"


def propose_progress(stream: DeletingStream) -> repair.Proposal:
    """The error of the run names a command; return the proposal of that command."""
    with pytest.raises(LedgerError, match=f"lakehouse repair progress {stream.table.name}"):
        stream.merge()
    return repair.propose_progress(stream.context)


@pytest.mark.invariant("1.15")
def test_a_cleaned_log_stops_the_run_and_recover_progress_loses_nothing(stream, attack):
    """Rows of the former topic have greater offsets than the rows merged since."""
    rows = set(stream.temperatures())
    stream.is_counted = False
    delete_topic(stream.settings, stream.table.topic)
    stream.make_topic()
    stream.accept_gap()
    stream.send_and_merge(record(time=hour(100)))
    stream.send(*(record(time=hour(number)) for number in range(101, 170)))
    with attack(LOST, "log cleaned past our newest commit, with rows of a former topic"):
        stream.sql("UPDATE {t} SET temperature_2m = 0")
        clean_log(stream.uri)
        proposal = propose_progress(stream)
        repair.record(stream.context, proposal)
        stream.merge()
        assert set(stream.temperatures()) == rows | {hour(number) for number in range(100, 170)}
        assert_all_is_right(stream)
    with attack(LOST, "log cleaned past our newest commit"):
        sent_before = stream.sent_by_itself
        read_again = read_topic(stream.settings, stream.table.topic).end[stream.own_partitions[1]]  # it has no row
        stream.send(record(time=hour(170)))
        stream.sql("UPDATE {t} SET temperature_2m = 1")
        clean_log(stream.uri)
        proposal = propose_progress(stream)
        assert proposal.positions[0] == read_topic(stream.settings, stream.table.topic).end[0] - 1
        repair.record(stream.context, proposal)
        (outcome,) = stream.merge()
        assert outcome.entry.commit.read == 1 + stream.sent_by_itself - sent_before + read_again
        assert set(stream.temperatures()) == rows | {hour(number) for number in range(100, 171)}
        assert_all_is_right(stream)


def hours_in_topic(stream: DeletingStream) -> set[str]:
    """The hours of all records in the topic that a test sent."""
    records = read_topic_records(stream.settings, stream.table.topic)
    values = [stored_record.value for stored_record in records if stored_record.partition not in stream.own_partitions]
    return {json.loads(value)["time"] for value in values if value.startswith(b"{")}


@pytest.mark.invariant("10.2")
def test_deleted_tables_are_created_again(stream, tmp_path, attack):
    attributes = ("name", "rejected_name", "base_name")
    stream.is_counted = False
    base = base_folder(tmp_path, {hour(200): 30.0})
    load_base(stream.context, base)
    for number, names in enumerate([attributes, *((attribute,) for attribute in attributes)]):
        with attack(LOST, f"tables deleted: {', '.join(name.removesuffix('_name') for name in names)}"):
            for name in names:
                shutil.rmtree(stream.settings.table_uri(getattr(stream.table, name)))
            base_folder(tmp_path, {hour(200): 30.0 + number})
            load_base(stream.context, base)
            stream.send(record(time=hour(201 + number)), b"[")
            rows = {} if "name" in names else stream.temperatures()
            rejected_before = [] if "rejected_name" in names else stream.rejected()
            if names == ("rejected_name",):
                with pytest.raises(LedgerError, match="rejected records are missing"):
                    stream.merge()
                stream.replay()
            stream.merge()
            topic_hours = hours_in_topic(stream) if "name" in names else set()
            temperatures = stream.temperatures()
            assert set(temperatures) >= {*rows, *topic_hours, hour(201 + number)}
            assert temperatures[hour(200)] == 30.0 + number
            assert len(stream.rejected()) == (len(rejected_before) if names == ("base_name",) else number) + 1
            assert_all_is_right(stream)


@pytest.mark.invariant("14.2")
def test_a_missing_table_of_deletes_stops_the_run_until_it_is_brought_back(stream, tmp_path, attack):
    folder = Path(stream.settings.table_uri(stream.table.deletes_name))
    stream.send(record(time=hour(250)))
    rows = stream.temperatures()
    with attack(SILENT, "tables deleted: deletes"), undo_afterwards(folder, tmp_path):
        shutil.rmtree(folder)
        with pytest.raises(LedgerError, match=r"needs the deletes of version \d+, which are missing"):
            stream.merge()
        assert stream.temperatures() == rows
    with attack(LOST, "tables deleted and brought back: deletes"):
        stream.merge()
        assert set(stream.temperatures()) == {*rows, hour(250)}
        assert_all_is_right(stream)


ALTERATIONS = {
    "a constraint added": ("ADD CONSTRAINT cold CHECK (temperature_2m < 19)", "rows violate a constraint.* cold "),
    "a column dropped": (
        "DROP COLUMN temperature_2m",
        "temperature_2m is in the declaration .* no longer",
    ),
    "a column of the order dropped": ("DROP COLUMN _record", "_record is in the declaration"),
    "a column renamed": ("RENAME COLUMN temperature_2m TO warmth", "temperature_2m is in the declaration"),
}
COLUMN_MAPPING = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def test_a_table_that_differs_from_its_declaration_stops_the_run_until_it_is_restored(spark, broker, attack):
    stream = DeletingStream.create(spark, broker)
    stream.send_and_merge(record(time=hour(0), temperature_2m=1.0))
    stream.sql(f"ALTER TABLE {{t}} {COLUMN_MAPPING}")
    for number, (alteration, (statement, message)) in enumerate(ALTERATIONS.items()):
        version_before = stream.ledger.version
        with attack(SILENT, f"the table altered: {alteration}"):
            stream.sql(f"ALTER TABLE {{t}} {statement}")
            stream.send(record(time=hour(1 + number), temperature_2m=30.0))
            with pytest.raises(TableError, match=message):
                stream.merge()
            assert stream.ledger.version == version_before + 1
        with attack(LOST, f"the table altered: {alteration}"):
            stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version_before}")
            stream.merge()
            assert len(stream.temperatures()) == 2 + number
    assert_all_is_right(stream)


def test_a_declaration_with_other_partitions_stops_and_the_error_names_both(stream, attack):
    with attack(SILENT, "declaration changed: partitions"):
        other_stream = replace(stream, table=replace(stream.table, partition_by=None, rollups=[]))
        with pytest.raises(
            TableError, match=r"partitioned by observed_month in the table and by nothing in its declaration"
        ):
            other_stream.merge()


@pytest.mark.invariant("10.10")
def test_a_rollup_is_rebuilt_after_its_declaration_changed(stream, attack):
    """A column and a measure are added; then a rollup has fewer groups."""
    table, rollup = stream.table, stream.table.rollups[0]
    humidity = Column("humidity", "DOUBLE", doc="Percent.")
    measures = {**rollup.measures, "warm": Measure("count_if(temperature_2m > 1)", "BIGINT", "Warm hours.")}
    with attack(LOST, "declaration changed: a column and a measure added"):
        extended_table = replace(
            table, columns=[*table.columns, humidity], rollups=[replace(rollup, measures=measures)]
        )
        extended_stream = replace(stream, table=extended_table)
        _, rollup_outcome = extended_stream.refresh()
        assert rollup_outcome.rebuilt
        extended_stream.send_and_merge(record(time=hour(300), humidity=50.0))
        assert_all_is_right(extended_stream)
        assert extended_stream.sql("SELECT sum(warm) FROM {rollup}") == extended_stream.sql(
            "SELECT count_if(temperature_2m > 1) FROM {t}"
        )
        assert extended_stream.sql("SELECT max(humidity_after) FROM {changes}") == [(50.0,)]
    with attack(LOST, "declaration changed: fewer groups"):
        extended_stream.send_and_refresh(record(time="2023-12-01T00:00"))
        smaller_rollup = replace(rollup, by=[name for name in rollup.by if name != "observed_month"])
        extended_stream = replace(extended_stream, table=replace(extended_table, rollups=[smaller_rollup]))
        assert_all_is_right(extended_stream)
        assert extended_stream.sql("SELECT rows FROM {rollup}") == extended_stream.sql("SELECT count(*) FROM {t}")


@pytest.mark.invariant("9.9")
def test_a_missing_data_file_is_named(spark, broker, attack):
    stream = DeletingStream.create(spark, broker)
    stream.send_and_merge(record(time=hour(0)))
    with attack(SILENT, "a file of rows deleted"):
        (file,) = (Path(uri) for uri in DeltaTable(stream.uri).file_uris() if f"={hour(0)[:7]}" in uri)
        file.unlink()
        stream.send(record(time=hour(0), temperature_2m=7.0))
        with pytest.raises(TableError, match=r"A file is missing or damaged.*" + re.escape(file.name)):
            stream.merge()
