"""The examples of AUTO CDC's guides: a table that is declared from their flow has the rows that the guides show."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.cli import main
from lakehouse.declaration import StreamTable
from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.rows import rows_of

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
FLOW = """
CREATE FLOW users_flow AS AUTO CDC INTO target FROM stream(cdc_data.users) KEYS (userId)
APPLY AS DELETE WHEN operation = "DELETE" {truncate}
SEQUENCE BY sequenceNum COLUMNS * EXCEPT (operation, sequenceNum) STORED AS SCD TYPE 1;
"""
WITH_TRUNCATE = 'APPLY AS TRUNCATE WHEN operation = "TRUNCATE"'
Declare = Callable[[str], StreamTable]


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Writes a declaration from the flow and a sample of its records, and returns the declared table."""
    folder = tmp_path / f"lake_{uuid4().hex}"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)

    def declare_table(clause: str) -> StreamTable:
        Path("pipeline.sql").write_text(FLOW.format(truncate=clause), encoding="utf-8")
        Path("users.jsonl").write_bytes(b"\n".join(RECORDS))
        with monkeypatch.context() as patch:
            patch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
            command = ["new-table", "target", "--from-auto-cdc", "pipeline.sql", "--from-sample", "users.jsonl"]
            assert main.run(command) == main.DONE
        file = folder / "target.py"
        names: dict[str, StreamTable] = {"__file__": str(file)}  # type: ignore[dict-item]
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)  # noqa: S102 - the proposed file
        return names["target"]

    return declare_table


def merged_rows(
    spark: SparkSession, broker: Settings, table: StreamTable, records: Sequence[bytes], batch: int
) -> set[tuple[int, str, str]]:
    """The rows after these records were merged, in batches of this many."""
    name = f"t_{uuid4().hex[:12]}"
    stream = Stream(spark, broker, replace(table, name=name, topic=name, partitions=1))
    create_topic(broker, stream.table)
    stream.send(*records)
    stream.merge(max_records=batch)
    stream.assert_accounted()
    rows = [(row["user_id"], row["name"], row["city"]) for row in rows_of(broker, name)]
    assert len(rows) == len({*rows})
    return {*rows}


def shuffled(records: Sequence[bytes], seed: int) -> list[bytes]:
    return Random(seed).sample(records, len(records))


def test_the_example_of_the_guides_has_its_rows_after_two_batches(
    spark: SparkSession, broker: Settings, declare: Declare
) -> None:
    assert merged_rows(spark, broker, declare(""), RECORDS, batch=4) == ROWS


@pytest.mark.slow
def test_the_example_of_the_guides_has_its_rows_in_any_order_and_split(
    spark: SparkSession, broker: Settings, declare: Declare
) -> None:
    table = declare("")
    assert merged_rows(spark, broker, table, RECORDS[::-1], batch=len(RECORDS)) == ROWS
    for seed, batch in enumerate((1, 2, 3, 5)):
        assert merged_rows(spark, broker, table, shuffled(RECORDS, seed), batch) == ROWS, (seed, batch)


@pytest.mark.slow
def test_the_example_with_a_truncate_has_its_rows_in_any_order_and_split(
    spark: SparkSession, broker: Settings, declare: Declare
) -> None:
    """It needs the option ``apply_as_truncates``."""
    table, records = declare(WITH_TRUNCATE), (*RECORDS, TRUNCATE)
    assert merged_rows(spark, broker, table, records, batch=len(records)) == ROWS_AFTER_TRUNCATE
    for seed, batch in enumerate((1, 2, 3, 5)):
        assert merged_rows(spark, broker, table, shuffled(records, seed), batch) == ROWS_AFTER_TRUNCATE, (seed, batch)
