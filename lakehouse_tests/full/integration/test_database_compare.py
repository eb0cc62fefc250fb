"""``lakehouse compare`` names each value that differs between a table and a real database, and no other."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Debezium, StreamTable, TextBoolean, TextNumber
from lakehouse.errors import LakehouseError
from lakehouse.operations.compare import Source, compare, equals_database
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.change_records import change
from lakehouse_tests.helpers.databases import workload
from lakehouse_tests.helpers.databases.mirror import Mirror
from lakehouse_tests.helpers.databases.postgres import Postgres


def test_compare_names_each_value_that_differs_and_none_if_all_is_well(
    spark: SparkSession, broker: Settings, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(spark, broker, postgres, tmp_path)
    workload.create_table(postgres, mirror.database, has_full_identity=True)
    mirror.run(workload.transactions(random.Random(5), 60, changes_large_keys=True))
    mirror.connect.start()
    try:
        assert mirror.becomes_equal(), mirror.difference()
    finally:
        mirror.connect.kill()
    comparison = mirror.compare()
    assert (comparison.differences, comparison.other_names) == ((), ())
    assert comparison.database_rows == comparison.table_rows == len(mirror.rows()) > 3
    (first, second, *_) = sorted(mirror.rows())
    location = mirror.stream.context.merged.layout.sql
    mirror.stream.spark.sql(
        f"UPDATE {location} SET name = 'changed', n64 = 1 WHERE shop = '{first[0]}' AND id = {first[1]}"
    )
    mirror.stream.spark.sql(f"DELETE FROM {location} WHERE shop = '{second[0]}' AND id = {second[1]}")
    postgres.run(
        "DELETE FROM items WHERE shop = 'b' AND id = (SELECT max(id) FROM items WHERE shop = 'b')",
        database=mirror.database,
    )
    changed, missing, extra = sorted(mirror.compare().differences, key=lambda d: (d.database is None, d.table is None))
    assert changed.key == (first[0], str(first[1]))
    assert {name: table for name, _, table in changed.columns(comparison.names)} == {"name": "changed", "n64": "1"}
    assert (missing.key, missing.table) == ((second[0], str(second[1])), None)
    assert (extra.key[0], extra.database) == ("b", None)
    monkeypatch.setattr("lakehouse.operations.compare._LASTING_SECONDS", 0.0)
    settings = mirror.stream.settings.model_copy(update={"database_url": SecretStr(mirror.url)})
    result = equals_database(settings, mirror.stream.table)
    assert not result.passed
    assert f"The key {first[0]}, {first[1]} differs in n64, name." in result.detail


TYPES = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("span", "BIGINT", "Microseconds."),
    Column("short", "BIGINT", "Milliseconds."),
    Column("at", "TIMESTAMP", "When."),
    Column("day", "DATE", "Day."),
    Column("number", "INT", "A number."),
    Column("points", "STRING", "A text."),
    Column("per_cent", "STRING", "A share.", source="per%cent"),
    Column("big", "DOUBLE", "A number."),
    Column("paid", "BOOLEAN", "A flag.", written=TextBoolean([1, True], [0, False])),
    Column("sent", "BOOLEAN", "A flag.", written=TextBoolean(["it's"], ["no"])),
    Column("price", "DECIMAL(9,2)", "A price.", written=TextNumber(decimal=",", thousands=".", or_number=True)),
    Column("pieces", "INT", "A number.", written=TextNumber(or_number=True)),
]


def test_compare_knows_each_type_and_names_the_columns_that_it_cannot_compare(
    spark: SparkSession, broker: Settings, postgres: Postgres
) -> None:
    """The rows are written as the connector sends them; no connector is needed to compare."""
    database = f"types_{uuid4().hex[:8]}"
    postgres.run(f"CREATE DATABASE {database}")
    values = (
        "1, interval '1 mon 2 days 00:00:03.5', time '00:00:01.5', 'infinity', date '-infinity', null, 7, 'x%', 1e20"
    )
    postgres.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, span interval, short time(3), at timestamp, day date, number int,"
        ' points int, "per%cent" text, big float8, paid int, sent text, price text, pieces int)',
        f"INSERT INTO items VALUES ({values}, 1, 'it''s', '1.234,5', 3)",
        "INSERT INTO items (id, paid, sent, price, pieces) VALUES (2, 0, 'no', '7', 4)",
        database=database,
    )
    table = StreamTable(database, f"{database}.public.items", "", TYPES, ["id"], format=Debezium())
    stream = Stream.of(spark, broker, table)
    fields = {"id": 1, "span": 2_802_603_500_000, "short": 1500, "big": 1e20, "number": None, "points": "7"}
    fields |= {"per%cent": "x%", "paid": 1, "sent": "it's", "price": "1.234,5", "pieces": "3"}
    second_fields = {**dict.fromkeys(fields), "id": 2, "paid": False, "sent": "no", "price": 7, "pieces": 4}
    stream.send_and_merge(change("r", 7, fields), change("r", 7, second_fields))
    url = f"postgresql://postgres@127.0.0.1:{postgres.port}/{database}"
    comparison = compare(broker, stream.table, Source(url, "public.items"), 0.0)
    (difference,) = comparison.differences
    assert {name for name, *_ in difference.columns(comparison.names)} == {"at", "day"}, (
        "infinite times cannot be stored"
    )
    assert comparison.other_names == ("points",)
    with pytest.raises(LakehouseError) as raised:
        compare(broker, stream.table, Source("postgresql://me:s3%cret@127.0.0.1/shop", "public.items"), 0.0)
    assert "cret" not in str(raised.value)


def test_compare_reports_only_differences_that_last(
    spark: SparkSession, broker: Settings, postgres: Postgres, tmp_path: Path
) -> None:
    mirror = Mirror(spark, broker, postgres, tmp_path)
    workload.create_table(postgres, mirror.database, has_full_identity=True)
    postgres.run("INSERT INTO items (shop, id) VALUES ('a', 1)", database=mirror.database)
    mirror.connect.start()
    try:
        assert mirror.becomes_equal(), mirror.difference()
        postgres.run("UPDATE items SET note = 'new'", database=mirror.database)
        assert mirror.compare().differences
        with ThreadPoolExecutor() as pool:
            comparison = pool.submit(mirror.compare, 60.0)
            assert mirror.becomes_equal(), mirror.difference()
            assert comparison.result().differences == ()
    finally:
        mirror.connect.kill()
