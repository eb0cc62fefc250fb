"""How far a comparison is, and which buckets of two tables differ."""

from lakehouse.operations.compare import BucketSums, Hashes, Pass, Progress
from lakehouse.operations.source_database import BUCKETS, ComparedColumns, DatabaseColumn, canonical_sql, canonical_text

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
