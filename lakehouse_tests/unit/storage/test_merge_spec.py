"""The text of a MERGE, run by DuckDB without the aliases of assigned columns; ``real`` runs it with Spark."""

import duckdb
import pytest

from lakehouse.storage.merge_spec import MergeSpec, equal_keys, equal_values, from_source, keyed_spec

Rows = list[tuple[int | None, str | None]]
STORED_ROWS: Rows = [(1, "one"), (2, None), (3, "three")]


def merge(spec: MergeSpec, source: list[tuple[int | None, str | None, bool]], stored_rows: Rows = STORED_ROWS) -> Rows:
    """Return the rows of the table after the MERGE."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k INT, v VARCHAR); CREATE TABLE s (k INT, v VARCHAR, gone BOOLEAN)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", stored_rows)
        connection.executemany("INSERT INTO s VALUES (?, ?, ?)", source)
        clauses = spec.clauses.replace("`", '"').replace('t."v" =', '"v" =').replace("<=>", "IS NOT DISTINCT FROM")
        connection.execute(f"MERGE INTO t USING s {clauses}")
        return connection.execute("SELECT k, v FROM t ORDER BY k").fetchall()


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        (MergeSpec(equal_keys(["k"]), insert=from_source(["k", "v"])), [*STORED_ROWS, (4, "four")]),
        (
            MergeSpec(equal_keys(["k"]), from_source(["v"]), from_source(["k", "v"])),
            [(1, "new"), (2, None), (3, None), (4, "four")],
        ),
        (MergeSpec(equal_keys(["k"]), from_source(["v"]), update_if="s.k = 1"), [(1, "new"), *STORED_ROWS[1:]]),
        (MergeSpec(equal_keys(["k"]), from_source(["v"]), delete_if="s.gone"), [(1, "new"), (2, None)]),
        (MergeSpec("false", insert=from_source(["k", "v"]), insert_if="s.k > 9"), STORED_ROWS),
        (
            MergeSpec(f"{equal_keys(['k'])} AND s.k < 2", insert=from_source(["k", "v"]), delete_unmatched=True),
            [(1, "one"), (2, None), (3, None), (4, "four")],
        ),
        (keyed_spec(["k", "v"], ["k"], "gone"), [(1, "new"), (2, None), (4, "four")]),
    ],
)
def test_rows_are_updated_inserted_and_deleted_by_the_spec(spec: MergeSpec, rows: Rows) -> None:
    source: list[tuple[int | None, str | None, bool]] = [
        (1, "new", False),
        (2, None, False),
        (3, None, True),
        (4, "four", False),
    ]
    assert merge(spec, source) == rows


def test_a_backtick_in_a_column_name_is_quoted() -> None:
    spec = MergeSpec(equal_values(["a`b"]), from_source(["a`b"]))
    assert spec.clauses == "ON t.`a``b` <=> s.`a``b` WHEN MATCHED THEN UPDATE SET t.`a``b` = s.`a``b`"


def test_keyed_rows_with_a_null_key_match_and_deleted_rows_are_not_inserted() -> None:
    spec = keyed_spec(["k", "v"], ["k"], "gone")
    source: list[tuple[int | None, str | None, bool]] = [(None, "none", False), (1, None, True), (9, "nine", True)]
    merged_rows = merge(spec, source)
    assert merged_rows == [(2, None), (3, "three"), (None, "none")]
    assert merge(spec, source, merged_rows) == merged_rows


def test_a_keyed_row_is_written_only_if_a_column_differs() -> None:
    assert "WHEN MATCHED AND NOT (t.`v` <=> s.`v`) THEN UPDATE" in keyed_spec(["k", "v"], ["k"], "gone").clauses
