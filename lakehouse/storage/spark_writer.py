"""Writing a Delta table: the one fenced commit through which every row of ours goes, and upkeep."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from lakehouse.errors import ConflictError
from lakehouse.errors.troubles import Trouble, means
from lakehouse.ledger.commits import MERGED, Commit, Entry, Upkeep
from lakehouse.ledger.durability import require_whole, sync_commits
from lakehouse.ledger.ledger import app_id, find_commit
from lakehouse.storage.layout import Layout
from lakehouse.storage.lock import table_lock
from lakehouse.storage.merge_spec import MergeSpec
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.statement import run_statement

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# what is merged is held, or as fixed as a version: Delta need not hold it once more
_HELD = {"spark.databricks.delta.merge.materializeSource": "none"}
# a task that runs again, since its executor died, counts its rows again: Delta commits no MERGE whose counts
# contradict each other, nor one that counted other rows of its source the second time
_COUNTED_ONCE = {
    "spark.databricks.delta.commandInvariantChecksThrow": "true",
    "spark.databricks.delta.merge.failIfSourceChanged": "true",
}


def upkeep(spark: SparkSession, layout: Layout, statement: str, run: str = "") -> None:
    """Run a statement that changes no row; its commits say that they are ours.

    Raises ``ConflictError`` where another writer was first.
    """
    said = {_USER_METADATA: Upkeep(run=run).model_dump_json()}
    with _writing(layout):
        run_statement(spark, layout.uri, lambda: spark.sql(statement).collect(), said)


def read_table(spark: SparkSession, layout: Layout, version: int | None = None) -> DataFrame:
    """The rows of a table, now or as of a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(layout.uri)


def read_changes(spark: SparkSession, layout: Layout, first: int, last: int) -> DataFrame:
    """The change data of the commits from one version to another, with both; Delta may have deleted it (VACUUM)."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", first).option("endingVersion", last).load(layout.uri)


def commit_merge(spark: SparkSession, layout: Layout, source: DataFrame, spec: MergeSpec, commit: Commit) -> Entry:
    """MERGE ``source`` (as ``s``) into the table (as ``t``) by ``spec`` in one commit that carries ``commit``.

    The commit takes the table's next transaction number: a
    number that is taken makes Delta skip the statement. Returns the entry that the history now holds.
    Raises ``TableError`` where the disk or the table fails, ``ConflictError`` where another writer was first: nothing
    was written then. ``ConflictError`` also where a RESTORE came between plan and commit: the commit is void, its rows
    are in the table, and its ranges are read again.
    """
    view = f"lakehouse_source_{commit.attempt}"
    source.createOrReplaceTempView(view)
    try:
        with _writing(layout):
            merge = f"MERGE INTO {layout.sql} AS t USING {view} AS s {spec.clauses}"
            run_statement(spark, layout.uri, lambda: spark.sql(merge).collect(), _fence(layout.name, commit))
    finally:
        with suppress(PySparkException):  # it goes with its session
            spark.catalog.dropTempView(view)
    return _require_committed(layout, commit)


def commit_append(spark: SparkSession, layout: Layout, rows: DataFrame, commit: Commit) -> Entry:
    """Append rows in one commit that carries ``commit``, fenced as a MERGE is; nothing of the table is read.

    Raises what ``commit_merge`` raises. An append does not conflict with a RESTORE between plan and commit either:
    whoever appends has to see to it that rows of a void commit do not come a second time.
    """
    writer = rows.write.format("delta").mode("append")
    with _writing(layout):
        run_statement(spark, layout.uri, lambda: writer.save(layout.uri), _fence(layout.name, commit))
    return _require_committed(layout, commit)


def commit_otherwise(layout: Layout, commit: Commit, write: Callable[[], object]) -> Entry:
    """Make a commit that carries ``commit`` by a writer that is not Spark, as the only one of ours.

    Raises ``ConflictError`` where it does not count.
    """
    with _writing(layout):
        write()
    return _require_committed(layout, commit)


def _require_committed(layout: Layout, commit: Commit) -> Entry:
    entry = find_commit(layout.uri, layout.name, commit)
    if entry is None:
        raise ConflictError(
            f"Commit {commit.number} of {layout.name} does not count: it was made by another writer, or is void, since"
            " it was planned before a RESTORE",
            where=layout.uri,
        )
    return entry


def commit_overwrite(spark: SparkSession, layout: Layout, rows: DataFrame, commit: Commit) -> Entry:
    """Replace all rows and columns of a table in one commit that carries ``commit``, fenced as a MERGE is.

    For who holds the table ``alone`` since it read the rows.
    """
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    fence = {"txnAppId": app_id(layout.name), "txnVersion": str(commit.number)}
    said = {_USER_METADATA: commit.model_dump_json()}
    run_statement(spark, layout.uri, lambda: partitioned(writer.options(**fence), layout).save(layout.uri), said)
    return _require_committed(layout, commit)


def partitioned(writer: DataFrameWriter, layout: Layout) -> DataFrameWriter:
    """A writer of files in the partitions of the layout."""
    return writer.partitionBy(layout.partition_by) if layout.partition_by else writer


def _fence(name: str, commit: Commit) -> dict[str, str]:
    """The transaction number and the metadata of a commit, as settings; and exact counts, where they are proof.

    Elsewhere Delta may leave out to count a source, which would then look like a contradiction.
    """
    return {
        **_HELD,
        **(_COUNTED_ONCE if commit.kind in MERGED else {}),
        _TXN_APP_ID: app_id(name),
        _TXN_VERSION: str(commit.number),
        _USER_METADATA: commit.model_dump_json(),
    }


@contextmanager
def _writing(layout: Layout) -> Iterator[None]:
    """Run one statement that writes, by whatever writer, alone."""
    with alone(layout):
        yield


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Write as the only one of ours on a local disk; what fails is told as an error of ours.

    What was committed is on the disk when this returns. Raises ``TableDamagedError``, before anything is written,
    where a power cut left only a part of an earlier commit.
    """
    with spark_failures(layout.uri), conflicts(layout.name), table_lock(layout.uri, layout.name):
        if layout.sync:
            require_whole(layout.uri)
        yield
        if layout.sync:
            sync_commits(layout.uri)


@contextmanager
def conflicts(name: str) -> Iterator[None]:
    """Turn Delta's concurrency errors, also of a creation by two writers at once, into ``ConflictError``."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if means(error, Trouble.CONFLICT):
            raise ConflictError(f"Another writer changed {name} in the same moment", where=name) from error
        raise
