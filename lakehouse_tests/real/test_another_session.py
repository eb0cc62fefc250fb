"""A Spark session that somebody else made in the same process, as another asset of a run does: it decides nothing."""

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.defs.resources import explained
from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import DELTA, EXACT
from lakehouse.spark import own_session
from lakehouse_tests.helpers.attacks.other_sessions import WRONG, merge_by_resource, other_session, resource_of
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, record

pytestmark = pytest.mark.invariant(3)

LAST_OF_MONTH, NEXT_MONTH = "2023-01-31T23:30", "2023-02-01T00:30"
UNLISTED = {"spark.databricks.delta.properties.defaults.enableDeletionVectors": "true"}


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    return Stream.create(spark, broker, base=None)


def rows(stream: Stream) -> list[tuple[str, str, float]]:
    told = stream.sql("SELECT observed_month, observed_at, temperature_2m FROM {t} ORDER BY observed_at")
    return [(str(month), str(at), value) for month, at, value in told]


@pytest.mark.slow
def test_a_key_stands_once_whatever_the_time_zone_of_another_session(stream: Stream, spark: SparkSession) -> None:
    merge_by_resource(stream, record(time=LAST_OF_MONTH, temperature_2m=1.0))
    with other_session(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        merge_by_resource(stream, record(time=LAST_OF_MONTH, temperature_2m=2.0))
    assert rows(stream) == [("2023-01-01", "2023-01-31 23:30:00", 2.0)]


@pytest.mark.slow
def test_both_hours_that_a_clock_shows_twice_are_rows_of_a_table_without_partitions(
    spark: SparkSession, broker: Settings
) -> None:
    """In Berlin both are 02:30 in the night when the clock is set back."""
    table = Stream.create(spark, broker, base=None, partition_by=None, rollups=())
    with by_spark(True), other_session(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        for value in (1.0, 2.0):
            for time in ("2023-10-29T00:30", "2023-10-29T01:30"):
                merge_by_resource(table, record(time=time, temperature_2m=value))
    stored = DeltaTable(table.uri).to_pyarrow_table(columns=["observed_at", "temperature_2m"]).to_pylist()
    assert sorted((f"{row['observed_at']:%H:%M}", row["temperature_2m"]) for row in stored) == [
        ("00:30", 2.0),
        ("01:30", 2.0),
    ]


@pytest.mark.slow
def test_a_table_is_the_same_though_another_session_has_every_setting_wrong(
    stream: Stream, spark: SparkSession, broker: Settings
) -> None:
    other = Stream.create(spark, broker, base=None)
    values = [record(time=time, temperature_2m=value) for value, time in enumerate((LAST_OF_MONTH, NEXT_MONTH), 1)]
    with other_session(spark, WRONG | UNLISTED) as foreign:
        merge_by_resource(other, *values)
        merge_by_resource(other, *values, record(time=NEXT_MONTH, temperature_2m=7.0), b"{")
        assert {name: foreign.conf.get(name) for name in WRONG} == WRONG
    assert rows(other) == [("2023-01-01", "2023-01-31 23:30:00", 1.0), ("2023-02-01", "2023-02-01 00:30:00", 7.0)]
    assert [reason for *_, reason in other.rejected()] == ["truncated"]
    assert [entry.commit.read for entry in other.ledger.entries] == [4, 2]
    assert "delta.enableDeletionVectors" not in DeltaTable(other.uri).metadata().configuration
    other.assert_accounted()


def test_every_setting_that_a_session_needs_is_tried_wrong() -> None:
    assert WRONG.keys() == EXACT.keys()
    assert not WRONG.items() & EXACT.items()


def test_what_others_set_and_name_stays_theirs_and_so_does_what_is_ours(stream: Stream, spark: SparkSession) -> None:
    with other_session(spark, {"spark.sql.shuffle.partitions": "7"}) as foreign:
        foreign.range(3).createOrReplaceTempView("theirs")
        with resource_of(stream.settings) as opened:
            with explained():
                ours = opened.spark_session
                assert SparkSession.getActiveSession() is ours is not foreign
                ours.range(1).createOrReplaceTempView("ours")
            assert SparkSession.getActiveSession() is foreign
            assert opened.spark_session is ours
            assert ours.conf.get("spark.sql.shuffle.partitions") != "7"
            assert [each.name for each in ours.catalog.listTables()] == ["ours"]
        assert SparkSession.getActiveSession() is foreign
        assert [each.name for each in foreign.catalog.listTables()] == ["theirs"]
        assert foreign.conf.get("spark.sql.shuffle.partitions") == "7"


def test_a_session_that_others_get_from_the_builder_is_not_ours(spark: SparkSession) -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    theirs = SparkSession.builder.config(name, "9").getOrCreate()
    try:
        assert theirs is not spark
        assert (theirs.conf.get(name), spark.conf.get(name)) == ("9", before)
    finally:
        theirs.conf.set(name, str(before))


def test_a_run_that_ends_leaves_the_spark_to_the_others(stream: Stream, spark: SparkSession) -> None:
    with resource_of(stream.settings) as longer:
        with resource_of(stream.settings) as shorter:
            assert shorter.spark_session is not longer.spark_session
        assert longer.spark_session.range(1).count() == 1
    assert spark.range(1).count() == 1


def test_a_spark_in_another_time_zone_is_refused(stream: Stream, spark: SparkSession) -> None:
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Europe/Berlin"))
    try:
        with resource_of(stream.settings) as opened, pytest.raises(SetupError, match="time zone Europe/Berlin"):
            opened.table_context(stream.table)
    finally:
        zones.setDefault(before)


@pytest.mark.parametrize("name", DELTA)
def test_a_spark_without_delta_is_refused(stream: Stream, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_session, "DELTA", {name: "something.Other"})
    with resource_of(stream.settings) as opened, pytest.raises(SetupError, match="started without Delta"):
        opened.table_context(stream.table)
