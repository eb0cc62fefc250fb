"""The conditions of tables and disks under which few rows are written without Spark."""

import os
import secrets
import shutil
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.ingest.counts import Counts
from lakehouse.kafka.metadata import Incarnation
from lakehouse.settings import Settings
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.eligibility import MOST_ROWS, can_append_quickly, can_merge_quickly
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.helpers.brokers.streams import unique_table
from lakehouse_tests.helpers.tables.plain_tables import (
    FAR,
    OSLO,
    PARIS,
    SCHEMA,
    create_table,
    next_commit,
    read_stored,
    rows,
)


def test_few_rows_are_eligible(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    assert can_append_quickly(layout, 10_000) and can_merge_quickly(layout, 10_000)
    assert not can_append_quickly(layout, MOST_ROWS + 1) and not can_append_quickly(layout, None)
    assert not can_append_quickly(replace(layout, uri=str(tmp_path / "none")), 1)


@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(16,2)", "DECIMAL(38, 0)", "STRUCT<a: INT>"])
def test_a_table_with_other_bounds_by_deltalake_is_not_eligible(tmp_path: Path, type_: str) -> None:
    layout = create_table(tmp_path, PARIS)
    columns = [TableColumn("place", type_, "d"), *layout.columns[1:]]
    assert not can_append_quickly(replace(layout, columns=columns), 1)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.dataSkippingStatsColumns": "n"},
        {"delta.appendOnly": "true"},
        {"delta.minWriterVersion": "4"},
        {"delta.enableDeletionVectors": "true"},
        {"delta.checkpointInterval": "50"},
    ],
)
def test_a_table_with_other_properties_is_not_eligible(tmp_path: Path, properties: dict[str, str]) -> None:
    assert not can_append_quickly(create_table(tmp_path, PARIS, **properties), 1)


def test_a_table_with_other_columns_is_not_eligible(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    assert not can_append_quickly(replace(layout, columns=[*layout.columns, TableColumn("more", "INT", "d")]), 1)
    assert not can_append_quickly(replace(layout, columns=[*layout.columns[:3], TableColumn("m", "BIGINT", "d")]), 1)


def test_the_most_rows_of_a_commit_fit_into_memory_if_they_are_numbers(tmp_path: Path) -> None:
    layout = merged_layout(unique_table(), Settings(home=tmp_path, _env_file=None))
    schema = pa.schema([(column.name, arrow_type(column.type.replace("`", ""))) for column in layout.columns])
    empty, properties = schema.empty_table(), layout.statistics_properties
    write_deltalake(layout.uri, empty, partition_by=layout.partitions, configuration=properties)
    topic = Incarnation("c" * 22, "t" * 22).source
    text = Counts(MOST_ROWS, 0, 0, 0).text_from(topic, 1 + len(unique_table().keep))
    assert can_append_quickly(layout, MOST_ROWS, text=text)
    assert not can_append_quickly(layout, MOST_ROWS, text=MOST_ROWS * 200)


def test_a_column_that_was_declared_later_may_be_the_last_one(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    reordered = replace(layout, columns=[layout.columns[3], *layout.columns[:3]])
    assert can_append_quickly(reordered, 1)
    append_quickly(reordered, rows(OSLO), next_commit(reordered))
    assert read_stored(layout) == sorted([PARIS, OSLO], key=str)


def test_a_table_with_a_column_without_nulls_is_not_eligible(tmp_path: Path) -> None:
    """A deleted group has no measures, and its row still passes through the writer."""
    layout = create_table(tmp_path, PARIS)
    shutil.rmtree(layout.uri)
    strict_schema = pa.schema([*list(SCHEMA)[:3], pa.field("n", pa.int64(), nullable=False)])
    write_deltalake(layout.uri, rows(PARIS).cast(strict_schema), configuration=layout.statistics_properties)
    assert not can_append_quickly(layout, 1)


def test_rows_as_wide_as_stored_rows_must_fit_into_memory(tmp_path: Path) -> None:
    wide_rows = create_table(tmp_path, (secrets.token_hex(20_000), Decimal(1), FAR, 1))
    assert can_append_quickly(wide_rows, 1_000) and not can_append_quickly(wide_rows, 50_000)
    assert can_append_quickly(create_table(tmp_path / "empty"), 1_000) and not can_append_quickly(
        create_table(tmp_path / "new"), 1_001
    ), "the width is unknown"


def test_many_rows_are_eligible_if_the_size_of_their_text_is_known(tmp_path: Path) -> None:
    """Their size on the disk does not measure it: equal texts are stored once."""
    repeated_texts = create_table(tmp_path, *(("state " * 200, Decimal("1.000000"), FAR, n) for n in range(20_000)))
    assert Path(DeltaTable(repeated_texts.uri).file_uris()[0]).stat().st_size < 1_000_000
    assert not can_append_quickly(repeated_texts, 500_000) and not can_merge_quickly(repeated_texts, 500_000)
    assert can_append_quickly(repeated_texts, 500_000, 1_000) and can_merge_quickly(repeated_texts, 500_000, text=1_000)
    assert not can_append_quickly(repeated_texts, 500_000, 500_000 * 1_200)
    numbers = replace(
        repeated_texts, columns=repeated_texts.columns[1:], uri=str(tmp_path / "numbers"), statistics=("at",)
    )
    number_rows = rows(PARIS).drop_columns(["place"])
    write_deltalake(numbers.uri, number_rows, configuration=numbers.statistics_properties)
    assert can_append_quickly(numbers, 500_000), "they contain no text"


def test_a_disk_that_refused_a_link_once_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, link = create_table(tmp_path, PARIS), os.link
    monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert not can_append_quickly(layout, 1)
    monkeypatch.setattr("os.link", link)
    assert can_append_quickly(layout, 1)


def test_a_disk_without_hard_links_is_not_eligible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = create_table(tmp_path, PARIS)

    def refuse_link(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse_link)
    assert not can_append_quickly(layout, 1)


def test_the_check_for_links_leaves_no_file_in_the_log_even_after_a_killed_check(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    for name in (".first", ".second"):
        Path(layout.uri, "_delta_log", name).touch()
    assert can_append_quickly(layout, 1)
    assert [file.name for file in Path(layout.uri, "_delta_log").iterdir()] == [f"{0:020d}.json"]


def test_spark_makes_every_hundredth_version_since_it_deletes_expired_log_files(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    while DeltaTable(layout.uri).version() < 98:
        write_deltalake(layout.uri, SCHEMA.empty_table(), mode="append")
    assert can_append_quickly(layout, 1)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    assert not can_append_quickly(layout, 1)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    layout = create_table(tmp_path / "mein Häuschen+&", PARIS)
    assert can_merge_quickly(layout, 1)


def create_partitioned(folder: Path, *days: date | None) -> Layout:
    """Create a partitioned table with one row per day."""
    columns = [TableColumn("place", "STRING", "d"), TableColumn("month", "DATE", "d")]
    layout = Layout("t", str(folder / "t"), "d", columns, "month", statistics=("place",), change_data=True)
    values = pa.table({"place": ["Paris"] * len(days), "month": pa.array(days, pa.date32())})
    configuration = layout.statistics_properties | layout.enforced_properties
    write_deltalake(layout.uri, values, partition_by=["month"], configuration=configuration)
    return layout


def test_a_merge_into_few_partitions_of_a_table_with_a_change_feed_is_eligible(tmp_path: Path) -> None:
    layout = create_partitioned(tmp_path, *(date(2000 + year, 1, 1) for year in range(40)), None)
    assert DeltaTable(layout.uri).protocol().min_writer_version == 4
    assert not can_merge_quickly(layout, 1), "it has too many files"
    assert can_merge_quickly(layout, 1, ["2007-01-01", "2099-01-01"])
    assert not can_merge_quickly(layout, 1, [f"{year}-01-01" for year in range(3000, 3040)]), (
        "there are too many partitions"
    )
    assert not can_merge_quickly(replace(layout, partition_by=None), 1, ["2007-01-01"])


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize(("name", "is_eligible"), [("comment", True), ("delta.invariants", False)])
def test_a_table_with_column_metadata_other_than_a_comment_is_not_eligible(
    tmp_path: Path, name: str, is_eligible: bool, is_inside: bool
) -> None:
    described_field = pa.field("n", pa.int64(), metadata={name: '{"expression": {"expression": "n > 0"}}'})
    field = pa.field("n", pa.struct([described_field])) if is_inside else described_field
    columns = [TableColumn("k", "INT", "d"), TableColumn("n", "as above", "d")]
    layout = Layout("t", str(tmp_path / "t"), "d", columns, statistics=("k",))
    DeltaTable.create(layout.uri, pa.schema([("k", pa.int32()), field]), configuration=layout.properties)
    assert can_append_quickly(layout, 1) == is_eligible


def test_a_merge_into_files_that_are_large_without_compression_is_not_eligible(tmp_path: Path) -> None:
    """Similar texts are compressed to a fiftieth on the disk."""
    layout, long_text = create_table(tmp_path), secrets.token_hex(8) * 8_000
    texts = [(f"{number} {long_text}", Decimal(number), FAR, number) for number in range(600)]
    write_deltalake(layout.uri, rows(*texts), mode="append")
    (file,) = Path(layout.uri).glob("*.parquet")
    assert file.stat().st_size < 10_000_000 and can_append_quickly(layout, 1) and not can_merge_quickly(layout, 1)


def test_a_merge_into_files_with_days_of_another_calendar_is_not_eligible(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    (file,) = Path(layout.uri).glob("*.parquet")
    pq.write_table(rows(PARIS).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), file)
    assert can_append_quickly(layout, 1) and not can_merge_quickly(layout, 1)


def test_a_merge_into_a_file_with_times_as_nanoseconds_is_not_eligible(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    (file,) = Path(layout.uri).glob("*.parquet")
    pq.write_table(rows(PARIS), file, use_deprecated_int96_timestamps=True)
    assert can_append_quickly(layout, 1) and not can_merge_quickly(layout, 1)
    file.unlink()
    assert not can_merge_quickly(layout, 1), "Spark reports the error"
