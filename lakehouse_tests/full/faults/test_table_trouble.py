"""Other people change the tables, their history or the declaration: it goes on and is right, or says what stops it."""

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
from lakehouse.kafka import create_topic, delete_topic, look
from lakehouse.operations import repair
from lakehouse_tests.helpers.brokers.clients import stored
from lakehouse_tests.helpers.brokers.streams import Stream, clean_log, hour, record
from lakehouse_tests.helpers.histories.upsets import assert_all_is_right
from lakehouse_tests.helpers.tables.base_files import base_folder

pytestmark = pytest.mark.invariant(1, 10)

LOST, SILENT = "Nothing is lost", "Nothing is silent"
Rows = dict[str, float | None]


def at(number: int) -> str:
    return f"TIMESTAMP'{hour(number)}'"


def put(number: int, value: float) -> Callable[[Rows], Rows]:
    return lambda rows: {time: value if time == hour(number) else held for time, held in rows.items()}


def without(number: int) -> Callable[[Rows], Rows]:
    return lambda rows: {time: held for time, held in rows.items() if time != hour(number)}


FOREIGN = {
    "UPDATE": (f"UPDATE {{t}} SET temperature_2m = 40 WHERE observed_at = {at(0)}", put(0, 40.0)),
    "DELETE": (f"DELETE FROM {{t}} WHERE observed_at = {at(1)}", without(1)),
    "OPTIMIZE": ("OPTIMIZE {t}", lambda rows: rows),
    "INSERT": (
        "INSERT INTO {t} (latitude, longitude, observed_at, observed_month, temperature_2m)"
        " SELECT 13.0, 77.600006, max(observed_at) + INTERVAL 1 HOUR, DATE'2023-01-01', 3.0 FROM {t}",
        lambda rows: {**rows, following(rows): 3.0},
    ),
    "INSERT OVERWRITE": (
        f"INSERT OVERWRITE {{t}} SELECT * FROM {{t}} WHERE observed_at <> {at(2)}",
        without(2),
    ),
    "CREATE OR REPLACE": (
        "CREATE OR REPLACE TABLE {t} USING DELTA PARTITIONED BY (observed_month) AS SELECT * FROM {t}"
        f" WHERE observed_at <> {at(3)}",
        without(3),
    ),
}
ALONE = [(name,) for name in FOREIGN]
TOGETHER = [("UPDATE", "DELETE", "OPTIMIZE", "INSERT"), ("INSERT OVERWRITE", "CREATE OR REPLACE")]


def following(rows: Rows) -> str:
    """The hour after the last one."""
    return f"{datetime.fromisoformat(max(rows)) + timedelta(hours=1):%Y-%m-%dT%H:%M}"


@pytest.fixture(scope="module")
def stream(spark, broker):
    """Four hours are merged, feed and rollup know them. Each test leaves every table right."""
    stream = Stream.create(spark, broker)
    stream.send(*(record(time=hour(number), temperature_2m=float(number)) for number in range(4)))
    stream.merge()
    stream.refresh()
    return stream


def test_after_foreign_commits_every_table_is_right(stream, attack):
    rows = stream.temperatures()
    for number, names in enumerate([*TOGETHER, *ALONE, *ALONE]):
        with attack(LOST, f"foreign commits between ours: {', '.join(names)}"):
            for name in names:
                statement, effect = FOREIGN[name]
                stream.sql(statement)
                rows = effect(rows)
            sent = {hour(1): 11.0 + number, max(rows): 5.0 + number, following(rows): 9.0}
            stream.send(*(record(time=time, temperature_2m=value) for time, value in sent.items()))
            stream.merge()
            rows |= sent
            assert stream.temperatures() == rows
            assert_all_is_right(stream)
        operations = " ".join(commit.operation for commit in stream.ledger.foreign)
        with attack(SILENT, f"foreign commits between ours: {', '.join(names)}"):
            assert all(name in operations for name in names if name in ("UPDATE", "DELETE", "CREATE OR REPLACE"))
    assert DeltaTable(stream.uri).metadata().configuration["delta.enableChangeDataFeed"] == "true"


def proposed(stream: Stream) -> repair.Proposal:
    """The run stops with the command that goes on; what that command shows."""
    with pytest.raises(LedgerError, match=f"lakehouse recover-progress {stream.table.name}"):
        stream.merge()
    return repair.propose_progress(stream.context)


def test_a_cleaned_log_stops_with_the_command_that_goes_on_and_loses_nothing(stream, attack):
    """Rows of a former topic have greater offsets than those of the topic that were merged since."""
    rows = set(stream.temperatures())
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    stream.accept_gap()
    stream.send(record(time=hour(100)))
    stream.merge()
    stream.send(*(record(time=hour(number)) for number in range(101, 170)))
    with attack(LOST, "log cleaned past our newest commit, with rows of a former topic"):
        stream.sql("UPDATE {t} SET temperature_2m = 0")
        clean_log(stream.uri)
        shown = proposed(stream)
        repair.record(stream.context, shown)
        stream.merge()
        assert set(stream.temperatures()) == rows | {hour(number) for number in range(100, 170)}
        assert_all_is_right(stream)
    with attack(LOST, "log cleaned past our newest commit"):
        stream.send(record(time=hour(170)))
        stream.sql("UPDATE {t} SET temperature_2m = 1")
        clean_log(stream.uri)
        shown = proposed(stream)
        assert shown.positions[0] == look(stream.settings, stream.table.topic).end[0] - 1
        repair.record(stream.context, shown)
        (outcome,) = stream.merge()
        assert outcome.entry.commit.read == 1
        assert set(stream.temperatures()) == rows | {hour(number) for number in range(100, 171)}
        assert_all_is_right(stream)


def in_topic(stream: Stream) -> set[str]:
    """The hours of all records that the topic holds."""
    values = [found.value for found in stored(stream.settings, stream.table.topic)]
    return {json.loads(value)["time"] for value in values if value.startswith(b"{")}


def test_tables_that_were_deleted_are_made_again(stream, tmp_path, attack):
    kinds = ("name", "rejected_name", "base_name")
    base = base_folder(tmp_path, {hour(200): 30.0})
    load_base(stream.context, base)
    for number, names in enumerate([kinds, *((kind,) for kind in kinds)]):
        with attack(LOST, f"tables deleted: {', '.join(name.removesuffix('_name') for name in names)}"):
            for name in names:
                shutil.rmtree(stream.settings.table_uri(getattr(stream.table, name)))
            base_folder(tmp_path, {hour(200): 30.0 + number})
            load_base(stream.context, base)
            stream.send(record(time=hour(201 + number)), b"[")
            rows = {} if "name" in names else stream.temperatures()
            rejected = [] if "rejected_name" in names else stream.rejected()
            stream.merge()
            topic = in_topic(stream) if "name" in names else set()
            held = stream.temperatures()
            assert set(held) >= {*rows, *topic, hour(201 + number)}
            assert held[hour(200)] == 30.0 + number
            assert len(stream.rejected()) == (number if "name" in names else len(rejected)) + 1
            assert_all_is_right(stream)


ALTERED = {
    "a constraint added": ("ADD CONSTRAINT cold CHECK (temperature_2m < 19)", "rows violate a constraint.* cold "),
    "a column dropped": (
        "DROP COLUMN temperature_2m",
        "temperature_2m is in the declaration .* no longer",
    ),
    "a column of the order dropped": ("DROP COLUMN _record", "_record is in the declaration"),
    "a column renamed": ("RENAME COLUMN temperature_2m TO warmth", "temperature_2m is in the declaration"),
}
MAPPED = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def test_a_table_that_no_longer_fits_stops_with_both_sides_and_goes_on_when_it_fits(spark, broker, attack):
    stream = Stream.create(spark, broker)
    stream.send(record(time=hour(0), temperature_2m=1.0))
    stream.merge()
    stream.sql(f"ALTER TABLE {{t}} {MAPPED}")
    for number, how in enumerate(ALTERED):
        statement, said = ALTERED[how]
        before = stream.ledger.version
        with attack(SILENT, f"the table altered: {how}"):
            stream.sql(f"ALTER TABLE {{t}} {statement}")
            stream.send(record(time=hour(1 + number), temperature_2m=30.0))
            with pytest.raises(TableError, match=said):
                stream.merge()
            assert stream.ledger.version == before + 1
        with attack(LOST, f"the table altered: {how}"):
            stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")
            stream.merge()
            assert len(stream.temperatures()) == 2 + number
    assert_all_is_right(stream)


def test_a_declaration_with_other_partitions_stops_with_both_sides(stream, attack):
    with attack(SILENT, "declared otherwise: partitions"):
        other = replace(stream, table=replace(stream.table, partition_by=None, rollups=[]))
        with pytest.raises(
            TableError, match=r"partitioned by observed_month in the table and by nothing in its declaration"
        ):
            other.merge()


def test_what_is_declared_anew_is_made_anew(stream, attack):
    """A column and a measure are added; then a rollup has fewer groups."""
    declared, rollup = stream.table, stream.table.rollups[0]
    humidity = Column("humidity", "DOUBLE", doc="Percent.")
    warm = {**rollup.measures, "warm": Measure("count_if(temperature_2m > 1)", "BIGINT", "Warm hours.")}
    with attack(LOST, "declared otherwise: a column and a measure added"):
        more = replace(declared, columns=[*declared.columns, humidity], rollups=[replace(rollup, measures=warm)])
        anew = replace(stream, table=more)
        _, refreshed = anew.refresh()
        assert refreshed.rebuilt
        anew.send(record(time=hour(300), humidity=50.0))
        anew.merge()
        assert_all_is_right(anew)
        assert anew.sql("SELECT sum(warm) FROM {rollup}") == anew.sql("SELECT count_if(temperature_2m > 1) FROM {t}")
        assert anew.sql("SELECT max(humidity_after) FROM {changes}") == [(50.0,)]
    with attack(LOST, "declared otherwise: fewer groups"):
        anew.send(record(time="2023-12-01T00:00"))
        anew.merge()
        anew.refresh()
        fewer = replace(rollup, by=[name for name in rollup.by if name != "observed_month"])
        anew = replace(anew, table=replace(more, rollups=[fewer]))
        assert_all_is_right(anew)
        assert anew.sql("SELECT rows FROM {rollup}") == anew.sql("SELECT count(*) FROM {t}")


def test_a_file_of_rows_that_is_gone_is_named(spark, broker, attack):
    stream = Stream.create(spark, broker)
    stream.send(record(time=hour(0)))
    stream.merge()
    with attack(SILENT, "a file of rows deleted"):
        (uri,) = DeltaTable(stream.uri).file_uris()
        file = Path(uri)
        file.unlink()
        stream.send(record(time=hour(0), temperature_2m=7.0))
        with pytest.raises(TableError, match=r"A file is missing or damaged.*" + re.escape(file.name)):
            stream.merge()
