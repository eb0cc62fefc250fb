"""Writes Delta tables with Spark: every row is written in one fenced commit; upkeep changes no row."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from lakehouse.errors import ConflictError, TableError
from lakehouse.errors.troubles import Trouble, has_trouble
from lakehouse.ledger.commit_infos import metadata_of
from lakehouse.ledger.commits import MERGED, Commit, Entry, Upkeep
from lakehouse.ledger.durability import require_undamaged, sync_commits
from lakehouse.ledger.ledger import app_id, find_commit
from lakehouse.ledger.log import open_table, read_history
from lakehouse.ledger.log_copies import look_again
from lakehouse.ledger.restores import named_version
from lakehouse.storage.layout import Layout
from lakehouse.storage.lock import table_lock
from lakehouse.storage.merge_spec import MergeSpec
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.statement import run_statement

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# the source of a merge is cached or reads a fixed version, so Delta need not cache it again
_NO_SOURCE_CACHE = {"spark.databricks.delta.merge.materializeSource": "none"}
# a task that is repeated after its executor died counts its rows again: Delta refuses a MERGE whose counts contradict
# each other, or whose source has other rows the second time
_COUNTED_ONCE = {
    "spark.databricks.delta.commandInvariantChecksThrow": "true",
    "spark.databricks.delta.merge.failIfSourceChanged": "true",
}


def run_restore(spark: SparkSession, layout: Layout, version: int) -> None:
    """Return a table to an earlier version; raises ``ConflictError`` if another writer was first.

    Raises ``TableError`` if the log has no such commit afterwards.
    """
    restore = f"RESTORE TABLE {layout.sql} TO VERSION AS OF {version}"
    with (
        write_alone(layout),
        _require_commit(layout, lambda info: info.get("operation") == "RESTORE" and named_version(info) == version),
    ):
        run_statement(spark, layout.uri, lambda: spark.sql(restore).collect())


def run_upkeep(spark: SparkSession, layout: Layout, statement: str, run: str = "") -> None:
    """Run a statement that changes no row; its commits are marked as ours.

    Raises ``ConflictError`` if another writer was first, and ``TableError`` if the log has no commit of an ALTER
    afterwards. OPTIMIZE and VACUUM make none if there is nothing to do.
    """
    metadata = {_USER_METADATA: Upkeep(run=run).model_dump_json()}
    commits = statement.startswith("ALTER ")
    required_commit = _require_commit(layout, lambda info: isinstance(metadata_of(info), Upkeep))
    with write_alone(layout), required_commit if commits else nullcontext():
        run_statement(spark, layout.uri, lambda: spark.sql(statement).collect(), metadata)


@contextmanager
def _require_commit(layout: Layout, is_made: Callable[[Mapping[str, Any]], bool]) -> Iterator[None]:
    """Raise ``TableError`` if no commit that was made in this block fits: Spark may report success without one."""
    before = _newest_version(layout)
    yield
    count = _newest_version(layout) - before
    if not any(map(is_made, read_history(layout.uri, count) if count > 0 else ())):
        message = f"Spark reported success, but made no commit in {layout.name}"
        raise TableError(message, where=layout.uri, action="Nothing was changed. Run it again.")


def _newest_version(layout: Layout) -> int:
    look_again()
    table = open_table(layout.uri)
    return table.version() if table else -1


def read_table(spark: SparkSession, layout: Layout, version: int | None = None) -> DataFrame:
    """Return the rows of a table, of the newest or of a given version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(layout.uri)


def commit_merge(spark: SparkSession, layout: Layout, source: DataFrame, spec: MergeSpec, commit: Commit) -> Entry:
    """MERGE ``source`` (as ``s``) into the table (as ``t``) by ``spec`` in one commit that carries ``commit``.

    The commit takes the table's next transaction number: if the number is taken, Delta skips the statement. Returns the
    entry that the history now contains.
    Raises ``TableError`` if the disk or the table fails, ``ConflictError`` if another writer was first; nothing is
    written then. Also raises ``ConflictError`` if a RESTORE came between plan and commit. The commit is then void: its
    rows are in the table, and its ranges are read again.
    """
    view = f"lakehouse_source_{commit.attempt}"
    source.createOrReplaceTempView(view)
    try:
        with write_alone(layout):
            merge = f"MERGE INTO {layout.sql} AS t USING {view} AS s {spec.clauses}"
            run_statement(spark, layout.uri, lambda: spark.sql(merge).collect(), _fence(layout.name, commit))
    finally:
        with suppress(PySparkException):  # the view ends with its session
            spark.catalog.dropTempView(view)
    return _require_committed(layout, commit)


def commit_append(spark: SparkSession, layout: Layout, rows: DataFrame, commit: Commit) -> Entry:
    """Append rows in one commit that carries ``commit``, fenced like a MERGE, without reading the table.

    Raises what ``commit_merge`` raises. Like a MERGE, an append does not conflict with a RESTORE between plan and
    commit: the caller has to make sure that rows of a void commit are not appended twice.
    """
    writer = rows.write.format("delta").mode("append")
    with write_alone(layout):
        run_statement(spark, layout.uri, lambda: writer.save(layout.uri), _fence(layout.name, commit))
    return _require_committed(layout, commit)


def commit_without_spark(layout: Layout, commit: Commit, write: Callable[[], object]) -> Entry:
    """Make a commit that carries ``commit`` by a writer other than Spark, as the only lakehouse writer.

    Raises ``ConflictError`` if the commit does not count.
    """
    with write_alone(layout):
        write()
    return _require_committed(layout, commit)


def _require_committed(layout: Layout, commit: Commit) -> Entry:
    entry = find_commit(layout.uri, layout.name, commit)
    if entry is None:
        raise ConflictError(
            f"Commit {commit.number} of {layout.name} does not count: another writer made it, or it is void because a"
            " RESTORE came after it was planned",
            where=layout.uri,
            action="Run it again: it plans the batch on the newest version.",
        )
    return entry


def commit_overwrite(spark: SparkSession, layout: Layout, rows: DataFrame, commit: Commit) -> Entry:
    """Replace all rows and columns of a table in one commit that carries ``commit``, fenced like a MERGE.

    The caller must ``write_alone`` from the moment it reads the rows.
    """
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    fence = {"txnAppId": app_id(layout.name), "txnVersion": str(commit.number)}
    metadata = {_USER_METADATA: commit.model_dump_json()}
    run_statement(spark, layout.uri, lambda: partitioned(writer.options(**fence), layout).save(layout.uri), metadata)
    return _require_committed(layout, commit)


def partitioned(writer: DataFrameWriter, layout: Layout) -> DataFrameWriter:
    """Return the writer with the partitions of the layout."""
    return writer.partitionBy(layout.partition_by) if layout.partition_by else writer


def _fence(name: str, commit: Commit) -> dict[str, str]:
    """Return the transaction number and the metadata of a commit as settings, and exact counts if the ledger uses them.

    For other commits Delta may not count the source, which would look like a contradiction.
    """
    return {
        **_NO_SOURCE_CACHE,
        **(_COUNTED_ONCE if commit.kind in MERGED else {}),
        _TXN_APP_ID: app_id(name),
        _TXN_VERSION: str(commit.number),
        _USER_METADATA: commit.model_dump_json(),
    }


@contextmanager
def write_alone(layout: Layout) -> Iterator[None]:
    """Write as the only lakehouse writer on a local disk, and translate errors of Spark into ours.

    The commits are flushed to the disk when this returns. Raises ``TableDamagedError``, before anything is written, if
    a power cut left an earlier commit incomplete.
    """
    with spark_failures(layout.uri), raise_conflicts(layout), table_lock(layout.uri, layout.name):
        if layout.sync:
            require_undamaged(layout.uri)
        yield
        if layout.sync:
            sync_commits(layout.uri)


@contextmanager
def raise_conflicts(layout: Layout) -> Iterator[None]:
    """Raise ``ConflictError`` instead of Delta's concurrency errors, including those of two concurrent creations."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if has_trouble(error, Trouble.CONFLICT):
            message = f"Another writer changed {layout.name} at the same moment"
            raise ConflictError(message, where=layout.name, action=layout.conflict_advice) from error
        raise
