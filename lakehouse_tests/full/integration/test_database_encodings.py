"""Change streams of a real database in each encoding of a connector: the table equals ``SELECT *`` in every value."""

import random
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, StreamTable
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.databases import workload
from lakehouse_tests.helpers.databases.connect import Connect, connector_of
from lakehouse_tests.helpers.databases.encodings import encoding_of
from lakehouse_tests.helpers.databases.mirror import Mirror
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.waiting import wait_until


@pytest.fixture(params=["Avro", "JSON with schemas", "flattened", "flattened Avro"])
def mirror(
    request: pytest.FixtureRequest, spark: SparkSession, registry: Settings, postgres: Postgres, tmp_path: Path
) -> Iterator[Mirror]:
    mirror = Mirror(spark, registry, postgres, tmp_path, encoding_of(request.param, registry))
    workload.create_table(postgres, mirror.database, has_full_identity=False)
    if "Avro" in request.param:
        postgres.run("ALTER TABLE items ALTER zoned DROP DEFAULT", database=mirror.database)
    mirror.run(workload.transactions(random.Random(1), 20, changes_large_keys=False))
    mirror.connect.start()
    try:
        yield mirror
    finally:
        mirror.connect.kill()


@pytest.mark.invariant("15.1", "15.3")
def test_a_table_equals_its_database_in_each_encoding(mirror: Mirror) -> None:
    assert mirror.becomes_equal(), mirror.difference()
    mirror.run(workload.transactions(random.Random(2), 60, changes_large_keys=False))
    if mirror.encoding.sends_truncates:
        mirror.run(iter([workload.truncate(random.Random(3))]))
    mirror.run(workload.transactions(random.Random(4), 20, changes_large_keys=False))
    assert mirror.becomes_equal(), mirror.difference()
    mirror.stream.assert_accounted()
    assert mirror.stream.ledger.totals.rejected == 0
    comparison = mirror.compare()
    assert (comparison.differences, comparison.other_names) == ((), ())


def test_the_converter_of_avro_sends_a_default_in_place_of_null_and_another_name(
    spark: SparkSession, registry: Settings, postgres: Postgres, tmp_path: Path
) -> None:
    """A limit on the page: if another version of the converter sends the null, this test fails."""
    database = f"names_{uuid4().hex[:8]}"
    encoding = encoding_of("Avro", registry)
    columns = [
        Column("id", "BIGINT", "Number.", required=True),
        Column("note", "STRING", "Null in the database, where the column has a default."),
        Column("per_cent", "STRING", "A share."),
    ]
    table = StreamTable(database, f"{database}.public.items", "", columns, ["id"], format=encoding.form)
    stream = Stream.of(spark, registry, table)
    postgres.run(f"CREATE DATABASE {database}")
    postgres.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, note text DEFAULT 'new', \"per%cent\" text)",
        "INSERT INTO items VALUES (1, NULL, '7%')",
        database=database,
    )
    connector = connector_of(postgres, database, "public.items") | dict(encoding.connector)
    connect = Connect(registry, tmp_path, connector)
    connect.start()
    try:
        assert wait_until(lambda: bool(stream.merge()), 60.0)
    finally:
        connect.kill()
    (row,) = rows_of(registry, table.name)
    assert (row["id"], row["note"], row["per_cent"]) == (1, "new", "7%")
