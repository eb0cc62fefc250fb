"""The example of AUTO CDC's guides: the table that our page declares for it has the rows that the guides show."""

import json
from collections.abc import Sequence
from random import Random
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import StreamTable
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.pages import read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.tables.tables import redeclare

FIELDS = ("userId", "name", "city", "operation", "sequenceNum")
CHANGES = (
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
)
RECORDS = tuple(json.dumps(dict(zip(FIELDS, change, strict=True))).encode() for change in CHANGES)
TRUNCATE = json.dumps(dict(zip(FIELDS, (None, None, None, "TRUNCATE", 3), strict=True))).encode()
ROWS = {(124, "Raul", "Oaxaca"), (125, "Mercedes", "Guadalajara"), (126, "Lily", "Cancun")}
ROWS_AFTER_TRUNCATE = {(125, "Mercedes", "Guadalajara")}
PAGE = ROOT / "docs" / "how-to" / "auto-cdc.md"


def table_of_the_page() -> StreamTable:
    names: dict[str, StreamTable] = {"__file__": "users.py"}  # type: ignore[dict-item]
    exec(compile(read_steps(PAGE)[1].text, str(PAGE), "exec"), names)  # noqa: S102 - the page's own example
    return names["users"]


def merged_rows(
    spark: SparkSession, broker: Settings, table: StreamTable, records: Sequence[bytes], batch: int
) -> set[tuple[int, str, str]]:
    """The rows after these records were merged, in batches of this many."""
    name = f"t_{uuid4().hex[:12]}"
    stream = Stream.of(spark, broker, redeclare(table, name=name, topic=name, partitions=1))
    stream.send(*records)
    stream.merge(max_records=batch)
    stream.assert_accounted()
    rows = [(row["user_id"], row["name"], row["city"]) for row in rows_of(broker, name)]
    assert len(rows) == len({*rows})
    return {*rows}


def shuffled(records: Sequence[bytes], seed: int) -> list[bytes]:
    return Random(seed).sample(records, len(records))


def test_the_example_of_the_guides_has_its_rows_after_two_batches(spark: SparkSession, broker: Settings) -> None:
    assert merged_rows(spark, broker, table_of_the_page(), RECORDS, batch=4) == ROWS


@pytest.mark.slow
@pytest.mark.parametrize(("records", "rows"), [(RECORDS, ROWS), ((*RECORDS, TRUNCATE), ROWS_AFTER_TRUNCATE)])
def test_the_example_of_the_guides_has_its_rows_in_any_order_and_split(
    spark: SparkSession, broker: Settings, records: Sequence[bytes], rows: set[tuple[int, str, str]]
) -> None:
    table = table_of_the_page()
    assert merged_rows(spark, broker, table, records[::-1], batch=len(records)) == rows
    for seed, batch in enumerate((1, 2, 3, 5)):
        assert merged_rows(spark, broker, table, shuffled(records, seed), batch) == rows, (seed, batch)
