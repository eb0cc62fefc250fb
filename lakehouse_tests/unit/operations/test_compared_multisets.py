"""``compare``: how far it is, which buckets differ, and how often each row of a key occurs."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.cli import compare as compare_verb
from lakehouse.declaration import Column, StreamTable
from lakehouse.operations.compare import (
    BucketSums,
    Comparison,
    Hashes,
    Pass,
    Progress,
    Source,
    compare,
    equals_database,
)
from lakehouse.operations.source_database import (
    BUCKETS,
    ComparedColumns,
    DatabaseColumn,
    Texts,
    bucket_of,
    canonical_sql,
    canonical_text,
    row_hash,
)
from lakehouse.settings import Settings

Row = tuple[int, str | None]
ITEMS = StreamTable(
    name="items",
    topic="shop.public.items",
    doc="d",
    columns=[Column("id", "BIGINT", "d", required=True), Column("name", "STRING", "d")],
    key=["id"],
)
LOG = replace(ITEMS, key=[])


@dataclass(frozen=True)
class RowsOfDatabase:
    """Rows of a table of a database, which may have no primary key."""

    rows_now: Sequence[Texts]
    columns: ComparedColumns

    def estimate_rows(self) -> int | None:
        return None

    def hashes(self) -> Iterator[tuple[int, int]]:
        return ((bucket_of(self._key(row)), row_hash(row)) for row in self.rows_now)

    def rows(self, buckets: Sequence[int]) -> Iterator[Texts]:
        return (row for row in self.rows_now if bucket_of(self._key(row)) in buckets)

    def _key(self, row: Texts) -> Texts:
        return row[: len(self.columns.key)]


def compare_rows(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    database: Sequence[Row],
    stored_rows: Sequence[Row],
    table: StreamTable = ITEMS,
) -> Comparison:
    rows = pa.Table.from_pylist([{"id": id_, "name": name} for id_, name in stored_rows])
    write_deltalake(settings.table_uri("items"), rows, mode="overwrite")
    columns = ComparedColumns(tuple(table.key) or ("id", "name"), {"id": "id", "name": "name"}, ())
    texts = [tuple(map(canonical_text, row)) for row in database]

    def open_source(*_: object) -> AbstractContextManager[RowsOfDatabase]:
        return nullcontext(RowsOfDatabase(texts, columns))

    monkeypatch.setattr("lakehouse.operations.compare.open_source", open_source)
    return compare(settings, table, Source("", "public.items"), 0.0)


@pytest.mark.parametrize(
    ("database", "stored_rows", "is_equal"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True),
        ([(1, "a"), (1, "b")], [(1, "b"), (1, "a")], True),
        ([(1, "a"), (1, "a")], [(1, "a"), (1, "a")], True),
        ([(1, "a")], [(1, "a"), (1, "a")], False),
        ([(1, "a"), (1, "a")], [(1, "a")], False),
        ([(1, "b"), (1, "a")], [(1, "a")], False),
        ([(1, "a")], [(1, "b"), (1, "a")], False),
        ([(1, "a"), (1, "a"), (1, "b")], [(1, "a"), (1, "b"), (1, "b")], False),
        ([(1, None), (1, "-")], [(1, None), (1, None)], False),
    ],
)
def test_tables_are_equal_only_if_each_row_occurs_equally_often(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    database: Sequence[Row],
    stored_rows: Sequence[Row],
    is_equal: bool,
) -> None:
    for table in (ITEMS, LOG):
        assert compare_rows(settings, monkeypatch, database, stored_rows, table).is_equal is is_equal


def test_a_key_with_other_numbers_of_rows_is_shown_with_both(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare_rows(settings, monkeypatch, [(1, "a"), (2, "b")], [(1, "a"), (1, "a"), (1, "c"), (2, "x")])
    described_counts = [(item.key, item.database_rows, item.table_rows) for item in comparison.differences]
    assert described_counts == [(("1",), 1, 3), (("1",), 1, 3), (("2",), 1, 1)]
    assert [compare_verb._difference_rows(item, comparison.names) for item in comparison.differences] == [
        [["1", "(rows)", "1", "3"]],
        [["1", "(rows)", "1", "3"]],
        [["2", "name", "b", "x"]],
    ]
    monkeypatch.setattr("lakehouse.operations.compare._LASTING_SECONDS", 0.0)
    assert "The key 1 is 1 times in the database and 3 times in the table." in equals_database(settings, ITEMS).detail


def test_a_row_that_only_one_table_has_is_missing_in_the_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare_rows(settings, monkeypatch, [(1, "a")], [(2, "b")])
    assert [compare_verb._difference_rows(item, comparison.names) for item in comparison.differences] == [
        [["1", "(row)", "exists", "is missing"]],
        [["2", "(row)", "is missing", "exists"]],
    ]


COLUMNS = ComparedColumns(("id",), {}, ())


def test_a_pass_reports_its_rows_at_the_start_every_10_000_and_at_the_end() -> None:
    reports = list[Progress]()
    rows = Pass(2, 4, reports.append).follow(iter(range(20_500)), "items", 21_000)
    assert list(rows) == list(range(20_500))
    assert [progress.rows for progress in reports] == [0, 10_000, 20_000, 20_500]
    assert {progress._replace(rows=0) for progress in reports} == {Progress("items", 0, 21_000, 2, 4)}


def test_a_pass_reports_a_table_before_its_first_row_is_read() -> None:
    reports = list[Progress]()
    rows = Pass(1, 1, reports.append).follow(iter("ab"), "items", None)
    next(rows)
    assert reports == [Progress("items", 0, None, 1, 1)]


def test_the_buckets_differ_whose_number_of_rows_or_hashes_differ() -> None:
    database = BucketSums([(0, 5), (0, 6), (1, 7), (2, 8), (BUCKETS - 1, 1)])
    table = BucketSums([(0, 6), (0, 5), (1, 9), (2, 3), (2, 5)])
    assert Hashes(database, table, COLUMNS).different_buckets == [1, 2, BUCKETS - 1]
    assert (database.rows, table.rows) == (5, 5)


def test_the_sum_of_many_large_hashes_has_no_limit() -> None:
    large_hash = 2**60 - 1
    assert BucketSums([(3, large_hash)] * 100).sums[3] == 100 * large_hash % 2**64


def test_bytes_are_compared_by_all_of_their_digits() -> None:
    assert canonical_sql(DatabaseColumn('"photo"', "bytea", None, None), "BINARY") == "encode(\"photo\", 'hex')"
    assert [canonical_text(value) for value in (b"\x00\xff\n", b"", None)] == ["00ff0a", "", None]
    assert canonical_sql(DatabaseColumn('"photo"', "text", None, None), "BINARY") is None
