"""Files written without Spark are like Spark's: compressed, and with row groups of at most the same size."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from lakehouse.decoding.staged import STALE
from lakehouse.storage.data_files import ROW_GROUP, partitions_without_codec
from lakehouse.storage.delta_rs_writer import append_quickly, upsert_quickly, write_quickly
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, rows

UNCOMPRESSED = WriterProperties(compression="UNCOMPRESSED")


def files(layout: Layout) -> Iterator[pq.FileMetaData]:
    return (pq.read_metadata(uri) for uri in DeltaTable(layout.uri).file_uris())


@pytest.mark.parametrize("writer", ["append", "merge", "store"])
def test_files_of_every_writer_are_compressed(tmp_path: Path, writer: str) -> None:
    layout = replace(create_table(tmp_path), change_data=True)
    if writer == "append":
        append_quickly(layout, rows(OSLO), next_commit(layout))
    elif writer == "merge":
        upsert_quickly(layout, rows((*OSLO, False)), ["place"], "gone", next_commit(layout))
    else:
        stale = pa.array([False])
        write_quickly(layout, rows(OSLO).append_column(STALE, stale), ["place"], None, next_commit(layout, "batch"))
    columns = [file.row_group(0).column(number) for file in files(layout) for number in range(file.num_columns)]
    assert {column.compression for column in columns} == {"SNAPPY"}


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_row_group_has_no_more_bytes_than_one_of_spark(tmp_path: Path, is_inside: bool) -> None:
    """The texts are incompressible: one is as large as fifty others, and half of them are NULL."""
    texts = [os.urandom(size // 2).hex() for size in [20_000_000, *[400_000] * 400]] + [None] * 400
    values = pa.array(texts)
    field = pa.StructArray.from_arrays([values], ["text"]) if is_inside else values
    table = pa.table({"k": pa.array(range(len(texts)), pa.int32()), "v": field})
    text = TableColumn("text", "STRING", "d")
    column = TableColumn.struct("v", "d", [text]) if is_inside else replace(text, name="v")
    layout = Layout("t", str(tmp_path / "t"), "d", [TableColumn("k", "INT", "d"), column], statistics=("k",))
    DeltaTable.create(layout.uri, table.schema, configuration=layout.properties)
    append_quickly(layout, table, next_commit(layout))
    groups = [file.row_group(number) for file in files(layout) for number in range(file.num_row_groups)]
    assert sum(group.num_rows for group in groups) == len(texts)
    assert max(group.total_byte_size for group in groups) < ROW_GROUP
    assert len(groups) < 10


def partitioned_layout(folder: Path) -> Layout:
    columns = [TableColumn("place", "STRING", "d"), TableColumn("n", "INT", "d")]
    return Layout("t", str(folder / "t"), "d", columns, "n", statistics=("place",))


def test_only_partitions_with_an_uncompressed_file_are_rewritten(tmp_path: Path) -> None:
    layout = partitioned_layout(tmp_path)
    assert partitions_without_codec(layout) == set(), "there is no table"
    first_rows, more_rows = ({"place": ["a"] * 2, "n": pa.array(values, pa.int32())} for values in ([1, None], [2, 3]))
    write_deltalake(layout.uri, pa.table(first_rows), partition_by=["n"], writer_properties=UNCOMPRESSED)
    write_deltalake(layout.uri, pa.table(more_rows), mode="append")
    assert partitions_without_codec(layout) == {"1", None}
    statement = layout.rewrite_statement({"1", None})
    assert statement == f"OPTIMIZE delta.`{layout.uri}` WHERE `n` IN (1) OR `n` IS NULL ZORDER BY (`place`)"
    assert layout.rewrite_statement({None}).endswith(" WHERE `n` IS NULL ZORDER BY (`place`)")
    assert partitions_without_codec(replace(layout, uri=f"s3://{layout.uri}")) == set()
    for file in Path(layout.uri, "n=1").iterdir():
        file.unlink()
    assert partitions_without_codec(layout) == {None}, "Spark reports the missing file"


def test_a_table_without_partitions_is_rewritten_as_a_whole(tmp_path: Path) -> None:
    layout = create_table(tmp_path)
    write_deltalake(layout.uri, rows(PARIS), mode="append", writer_properties=UNCOMPRESSED)
    assert partitions_without_codec(layout) == {None}
    assert layout.rewrite_statement({None}) == f"OPTIMIZE delta.`{layout.uri}` ZORDER BY (`place`)"


def test_a_large_partition_is_left_to_the_next_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = create_table(tmp_path)
    write_deltalake(layout.uri, rows(PARIS), mode="append", writer_properties=UNCOMPRESSED)
    monkeypatch.setattr("lakehouse.storage.data_files._MOST_REWRITTEN", 100)
    assert partitions_without_codec(layout) == set()


def test_a_compressed_file_without_a_codec_in_its_name_is_not_rewritten(tmp_path: Path) -> None:
    layout = create_table(tmp_path)
    write_deltalake(layout.uri, rows(PARIS), mode="append", writer_properties=UNCOMPRESSED)
    (file,) = (Path(uri) for uri in DeltaTable(layout.uri).file_uris())
    pq.write_table(rows(PARIS), file, compression="zstd")
    assert partitions_without_codec(layout) == set()
