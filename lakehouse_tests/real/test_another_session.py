"""Another Spark session in the same process, such as that of another asset of a run, has no influence."""

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.defs.resources import explained
from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import DELTA, EXACT
from lakehouse.spark import own_session as own_session_module
from lakehouse_tests.helpers.attacks.other_sessions import WRONG_SETTINGS, merge_by_resource, other_session, resource_of
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, record

LAST_OF_MONTH, NEXT_MONTH = "2023-01-31T23:30", "2023-02-01T00:30"
UNLISTED_CONF = {"spark.databricks.delta.properties.defaults.enableDeletionVectors": "true"}


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    return Stream.create(spark, broker, base=None)


def rows(stream: Stream) -> list[tuple[str, str, float]]:
    stored_rows = stream.sql("SELECT observed_month, observed_at, temperature_2m FROM {t} ORDER BY observed_at")
    return [(str(month), str(at), value) for month, at, value in stored_rows]


@pytest.mark.invariant("3.5", "13.2")
@pytest.mark.slow
def test_a_key_has_one_row_in_any_time_zone_of_another_session(stream: Stream, spark: SparkSession) -> None:
    merge_by_resource(stream, record(time=LAST_OF_MONTH, temperature_2m=1.0))
    with other_session(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        merge_by_resource(stream, record(time=LAST_OF_MONTH, temperature_2m=2.0))
    assert rows(stream) == [("2023-01-01", "2023-01-31 23:30:00", 2.0)]


@pytest.mark.invariant("3.5", "13.2")
@pytest.mark.slow
def test_both_hours_of_a_clock_change_are_rows_of_an_unpartitioned_table(spark: SparkSession, broker: Settings) -> None:
    """In Berlin both hours are 02:30 in the night when the clock is set back."""
    table = Stream.create(spark, broker, base=None, partition_by=None, rollups=())
    with by_spark(True), other_session(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        for value in (1.0, 2.0):
            for time in ("2023-10-29T00:30", "2023-10-29T01:30"):
                merge_by_resource(table, record(time=time, temperature_2m=value))
    stored_values = DeltaTable(table.uri).to_pyarrow_table(columns=["observed_at", "temperature_2m"]).to_pylist()
    assert sorted((f"{row['observed_at']:%H:%M}", row["temperature_2m"]) for row in stored_values) == [
        ("00:30", 2.0),
        ("01:30", 2.0),
    ]


@pytest.mark.invariant("3.5")
@pytest.mark.slow
def test_wrong_settings_of_another_session_do_not_change_a_table(
    stream: Stream, spark: SparkSession, broker: Settings
) -> None:
    other_stream = Stream.create(spark, broker, base=None)
    values = [record(time=time, temperature_2m=value) for value, time in enumerate((LAST_OF_MONTH, NEXT_MONTH), 1)]
    with other_session(spark, WRONG_SETTINGS | UNLISTED_CONF) as other_spark:
        merge_by_resource(other_stream, *values)
        merge_by_resource(other_stream, *values, record(time=NEXT_MONTH, temperature_2m=7.0), b"{")
        assert {name: other_spark.conf.get(name) for name in WRONG_SETTINGS} == WRONG_SETTINGS
    assert rows(other_stream) == [
        ("2023-01-01", "2023-01-31 23:30:00", 1.0),
        ("2023-02-01", "2023-02-01 00:30:00", 7.0),
    ]
    assert [reason for *_, reason in other_stream.rejected()] == ["truncated"]
    assert [entry.commit.read for entry in other_stream.ledger.entries] == [4, 2]
    assert "delta.enableDeletionVectors" not in DeltaTable(other_stream.uri).metadata().configuration
    other_stream.assert_accounted()


def test_every_required_setting_is_tested_with_a_wrong_value() -> None:
    assert WRONG_SETTINGS.keys() == EXACT.keys()
    assert not WRONG_SETTINGS.items() & EXACT.items()


@pytest.mark.invariant("3.5")
@pytest.mark.slow
def test_settings_and_views_are_not_shared_between_sessions(stream: Stream, spark: SparkSession) -> None:
    with other_session(spark, {"spark.sql.shuffle.partitions": "7"}) as other_spark:
        other_spark.range(3).createOrReplaceTempView("theirs")
        with resource_of(stream.settings) as resource:
            with explained():
                own_session = resource.spark_session
                assert SparkSession.getActiveSession() is own_session is not other_spark
                own_session.range(1).createOrReplaceTempView("ours")
            assert SparkSession.getActiveSession() is other_spark
            assert resource.spark_session is own_session
            assert own_session.conf.get("spark.sql.shuffle.partitions") != "7"
            assert [view.name for view in own_session.catalog.listTables()] == ["ours"]
        assert SparkSession.getActiveSession() is other_spark
        assert [view.name for view in other_spark.catalog.listTables()] == ["theirs"]
        assert other_spark.conf.get("spark.sql.shuffle.partitions") == "7"


@pytest.mark.invariant("3.5")
def test_the_session_builder_gives_others_another_session(spark: SparkSession) -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    other_spark = SparkSession.builder.config(name, "9").getOrCreate()
    try:
        assert other_spark is not spark
        assert (other_spark.conf.get(name), spark.conf.get(name)) == ("9", before)
    finally:
        other_spark.conf.set(name, str(before))


def test_the_end_of_a_run_does_not_stop_spark_for_others(stream: Stream, spark: SparkSession) -> None:
    with resource_of(stream.settings) as longer_run:
        with resource_of(stream.settings) as shorter_run:
            assert shorter_run.spark_session is not longer_run.spark_session
        assert longer_run.spark_session.range(1).count() == 1
    assert spark.range(1).count() == 1


@pytest.mark.invariant("3.5")
def test_a_spark_in_another_time_zone_is_refused(stream: Stream, spark: SparkSession) -> None:
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Europe/Berlin"))
    try:
        with resource_of(stream.settings) as resource, pytest.raises(SetupError, match="time zone Europe/Berlin"):
            resource.table_context(stream.table)
    finally:
        zones.setDefault(before)


@pytest.mark.invariant("3.5")
@pytest.mark.parametrize("name", DELTA)
def test_a_spark_without_delta_is_refused(stream: Stream, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_session_module, "DELTA", {name: "something.Other"})
    with resource_of(stream.settings) as resource, pytest.raises(SetupError, match="started without Delta"):
        resource.table_context(stream.table)
