"""Who writes rows: deltalake, if they are few and the table is plain, else Spark. The rows are the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.commits import Commit, Entry
from lakehouse.delta.layout import Layout
from lakehouse.delta.merge_spec import MergeSpec, equal_values, from_source
from lakehouse.delta.plain import is_quick, is_quick_to_merge
from lakehouse.delta.quick import append_quickly, merge_quickly
from lakehouse.delta.write import commit_append, commit_merge
from lakehouse.spark import collected


@dataclass(frozen=True)
class Expected:
    """How many rows are written, and how many bytes of text are in them; ``None``: nobody knows."""

    rows: int | None
    text: int | None = None


def append_rows(spark: SparkSession, layout: Layout, rows: DataFrame, commit: Commit, expected: Expected) -> Entry:
    """Append rows in one commit that carries ``commit``; nothing of the table is read.

    Raises what ``commit_append`` raises; ``ConflictError`` too where somebody committed since it was planned.
    """
    few = collected(rows) if is_quick(layout, expected.rows, expected.text) else None
    return append_quickly(layout, few, commit) if few is not None else commit_append(spark, layout, rows, commit=commit)


@dataclass(frozen=True)
class Keyed:
    """Rows of which each has a key of its own. Where the column ``gone`` is true, the row of the table is deleted."""

    rows: DataFrame
    key: Sequence[str]
    gone: str


def merge_keyed(spark: SparkSession, layout: Layout, keyed: Keyed, commit: Commit, expected: Expected) -> Entry:
    """Make the table hold these rows in one commit that carries ``commit``. NULL equals NULL.

    A row is written only where a column of it differs. Raises what ``commit_merge`` raises.
    """
    few = collected(keyed.rows) if is_quick_to_merge(layout, expected.rows, text=expected.text) else None
    if few is not None:
        return merge_quickly(layout, few, keyed.key, keyed.gone, commit)
    return commit_merge(spark, layout, keyed.rows, keyed_spec(layout.names, keyed.key, keyed.gone), commit)


def keyed_spec(names: Sequence[str], key: Sequence[str], gone: str) -> MergeSpec:
    """How keyed rows are merged by Spark."""
    others = [name for name in names if name not in key]
    return MergeSpec(
        equal_values(key),
        from_source(others),
        from_source(names),
        update_if=f"NOT ({equal_values(others)})" if others else "",
        insert_if=f"NOT s.{gone}",
        delete_if=f"s.{gone}",
    )
