"""The text of a MERGE, as Spark and DuckDB read it."""

import duckdb
import pytest

from lakehouse.delta.merge_spec import MergeSpec, equal_keys, equal_values, from_source
from lakehouse.delta.row_commits import keyed_spec

Rows = list[tuple[int, str | None]]
STORED: Rows = [(1, "one"), (2, None), (3, "three")]


def merged(spec: MergeSpec, source: list[tuple[int, str | None, bool]]) -> Rows:
    """What the table holds after the MERGE."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k INT, v VARCHAR); CREATE TABLE s (k INT, v VARCHAR, gone BOOLEAN)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", STORED)
        connection.executemany("INSERT INTO s VALUES (?, ?, ?)", source)
        clauses = spec.clauses.replace("`", '"').replace('t."v" =', '"v" =').replace("<=>", "IS NOT DISTINCT FROM")
        connection.execute(f"MERGE INTO t USING s {clauses}")
        return connection.execute("SELECT k, v FROM t ORDER BY k").fetchall()


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        (MergeSpec(equal_keys(["k"]), insert=from_source(["k", "v"])), [*STORED, (4, "four")]),
        (
            MergeSpec(equal_keys(["k"]), from_source(["v"]), from_source(["k", "v"])),
            [(1, "new"), (2, None), (3, None), (4, "four")],
        ),
        (MergeSpec(equal_keys(["k"]), from_source(["v"]), update_if="s.k = 1"), [(1, "new"), *STORED[1:]]),
        (MergeSpec(equal_keys(["k"]), from_source(["v"]), delete_if="s.gone"), [(1, "new"), (2, None)]),
        (MergeSpec("false", insert=from_source(["k", "v"]), insert_if="s.k > 9"), STORED),
        (
            MergeSpec(f"{equal_keys(['k'])} AND s.k < 2", insert=from_source(["k", "v"]), delete_unmatched=True),
            [(1, "one"), (2, None), (3, None), (4, "four")],
        ),
        (keyed_spec(["k", "v"], ["k"], "gone"), [(1, "new"), (2, None), (4, "four")]),
    ],
)
def test_rows_are_updated_inserted_and_deleted_as_it_says(spec: MergeSpec, rows: Rows) -> None:
    source = [(1, "new", False), (2, None, False), (3, None, True), (4, "four", False)]
    assert merged(spec, source) == rows


def test_a_column_of_any_name_is_one_column() -> None:
    spec = MergeSpec(equal_values(["a`b"]), from_source(["a`b"]))
    assert spec.clauses == "ON t.`a``b` <=> s.`a``b` WHEN MATCHED THEN UPDATE SET t.`a``b` = s.`a``b`"
