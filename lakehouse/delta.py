"""Delta tables: create, evolve, and the one fenced MERGE through which every row of ours is written."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.commits import Commit, Entry, Upkeep
from lakehouse.errors import ConflictError, TableError
from lakehouse.failures import table_failures
from lakehouse.ledger import app_id, find_attempt, read_ledger
from lakehouse.lock import table_lock
from lakehouse.log import open_table
from lakehouse.troubles import Trouble, means

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_CHANGE_DATA = "delta.enableChangeDataFeed"
_LOG_RETENTION = timedelta(days=30)  # at least: the history is the ledger


@dataclass(frozen=True)
class TableColumn:
    """A column as it stands in a table: its name, Spark SQL type and what it means."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True)
class Layout:
    """How a table is stored: where, its columns, its partition column and the columns with statistics.

    ``change_data`` keeps the changes of each version, for tables that others are derived from; ``retention``
    is how far back the table can be read as it was then, at least. Without its ``anchors`` a row means
    nothing: these columns are never added later. ``declaration`` is the hash of what the columns follow from.
    """

    name: str
    uri: str
    doc: str
    columns: Sequence[TableColumn]
    partition_by: str | None = None
    statistics: Sequence[str] = ()
    change_data: bool = False
    retention: timedelta = timedelta(days=7)
    anchors: Sequence[str] = ()
    declaration: str = ""

    @property
    def sql(self) -> str:
        """The table in a SQL statement."""
        return f"delta.`{self.uri.replace('`', '``')}`"

    @property
    def names(self) -> list[str]:
        """The column names in order."""
        return [column.name for column in self.columns]

    @property
    def lasting(self) -> dict[str, str]:
        """The table properties that have to stand whoever changes them."""
        return self.retention_properties | ({_CHANGE_DATA: "true"} if self.change_data else {})

    @property
    def properties(self) -> dict[str, str]:
        """The table properties with which it is created."""
        statistics = {"delta.dataSkippingStatsColumns": ",".join(self.statistics)} if self.statistics else {}
        return {_CHANGE_DATA: "false"} | self.lasting | statistics

    @property
    def retention_properties(self) -> dict[str, str]:
        """The table properties that make the retention hold; VACUUM knows no other."""
        kept = {"delta.deletedFileRetentionDuration": self.retention}
        kept["delta.logRetentionDuration"] = max(self.retention, _LOG_RETENTION)
        return {name: f"interval {max(1, round(time.total_seconds()))} seconds" for name, time in kept.items()}


def ensure_table(spark: SparkSession, layout: Layout) -> None:
    """Create the table where it is missing, add columns it lacks, correct how long its files are kept.

    A second call changes nothing.

    Raises ``TableError`` where the table does not fit: a column of another type, one that somebody dropped,
    other partitions; and where it cannot be read or made. Raises ``ConflictError`` where another writer
    created it in the same moment.
    """
    with table_failures(layout.uri), _conflicts(layout.name):
        stands = (open_table(layout.uri) or _create(spark, layout)).metadata()
        found = {field.name: field.dataType.simpleString() for field in read_table(spark, layout).schema}
    _require_types(layout, found)
    _require_partition(layout, stands.partition_columns)
    missing = [column for column in layout.columns if column.name not in found]
    if missing:
        _require_new(layout, [column.name for column in missing])
        upkeep(spark, layout, f"ALTER TABLE {layout.sql} ADD COLUMNS ({', '.join(map(_definition, missing))})")
    wrong = {name: value for name, value in layout.lasting.items() if stands.configuration.get(name) != value}
    if wrong:
        upkeep(spark, layout, f"ALTER TABLE {layout.sql} SET TBLPROPERTIES ({_listed(wrong)})")


def upkeep(spark: SparkSession, layout: Layout, statement: str, run: str = "") -> None:
    """Run a statement that changes no row; its commits say that they are ours.

    Raises ``ConflictError`` where another writer was first.
    """
    said = {_USER_METADATA: Upkeep(kind="upkeep", run=run).model_dump_json()}
    with _writing(spark, layout, said):
        spark.sql(statement).collect()


def _create(spark: SparkSession, layout: Layout) -> DeltaTable:
    with table_lock(layout.uri, layout.name):
        spark.sql(_create_statement(layout))
        created = open_table(layout.uri)
        if created is None:
            _create_in_place(spark, layout)
            created = open_table(layout.uri)
    if created is None:
        raise TableError(
            f"Table {layout.name} could not be made",
            where=layout.uri,
            action="See what its folder holds, or correct LAKEHOUSE_TABLES.",
        )
    return created


def _create_in_place(spark: SparkSession, layout: Layout) -> None:
    """Create the table in a folder that a cut-off creation left: the statement takes it for a table (seen)."""
    columns = ", ".join(f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in layout.columns)
    nothing = spark.sql(f"SELECT {columns} WHERE false")
    for column in layout.columns:
        nothing = nothing.withMetadata(column.name, {"comment": column.doc})
    writer = nothing.write.format("delta").mode("ignore").options(**layout.properties)
    (writer.partitionBy(layout.partition_by) if layout.partition_by else writer).save(layout.uri)


def _create_statement(layout: Layout) -> str:
    return (
        f"CREATE TABLE IF NOT EXISTS {layout.sql} ({', '.join(map(_definition, layout.columns))}) USING DELTA"
        + (f" PARTITIONED BY (`{layout.partition_by}`)" if layout.partition_by else "")
        + f" COMMENT {quoted(layout.doc)}"
        + f" TBLPROPERTIES ({_listed(layout.properties)})"
    )


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in properties.items())


def _definition(column: TableColumn) -> str:
    return f"`{column.name}` {column.type} COMMENT {quoted(column.doc)}"


def quoted(text: str) -> str:
    """A string literal in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _require_types(layout: Layout, found: dict[str, str]) -> None:
    for column in layout.columns:
        declared = column.type.lower().replace(", ", ",")
        stands = found.get(column.name, declared)
        if stands != declared and "<" not in declared:
            raise TableError(
                f"Column {column.name} is {stands} in the table and {declared} in its declaration",
                where=layout.uri,
                action="Declare the type the table has, or write to a new table.",
            )


def _require_partition(layout: Layout, stands: Sequence[str]) -> None:
    declared = [layout.partition_by] if layout.partition_by else []
    if list(stands) != declared:
        raise TableError(
            f"The table is partitioned by {', '.join(stands) or 'nothing'} and"
            f" its declaration by {', '.join(declared) or 'nothing'}",
            where=layout.uri,
            action="Declare the partitions the table has, or write to a new table.",
        )


def _require_new(layout: Layout, missing: Sequence[str]) -> None:
    """Raise where a column that is missing was there: to add it again would hide that its values are gone."""
    newest = read_ledger(layout.uri, layout.name).newest
    same = newest is not None and newest.commit.declaration == layout.declaration != ""
    gone = [name for name in missing if same or name in layout.anchors]
    if gone:
        raise TableError(
            f"Column {gone[0]} is in the declaration of {layout.name} and no longer in the table",
            where=layout.uri,
            action="Somebody dropped or renamed it: RESTORE the table to the version before, then run it again.",
        )


def read_table(spark: SparkSession, layout: Layout, version: int | None = None) -> DataFrame:
    """The rows of a table, now or as of a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(layout.uri)


def commit_merge(spark: SparkSession, layout: Layout, source: DataFrame, clauses: str, commit: Commit) -> Entry:
    """MERGE ``source`` (as ``s``) into the table (as ``t``) in one commit that carries ``commit``.

    ``clauses`` is the statement from ``ON`` on. The commit takes the table's next transaction number: a
    number that is taken makes Delta skip the statement. Returns the entry that the history now holds.
    Raises ``ConflictError`` where another writer was first, ``TableError`` where the disk or the table fails;
    nothing was written then.
    """
    view = f"lakehouse_source_{commit.attempt}"
    source.createOrReplaceTempView(view)
    try:
        with _writing(spark, layout, _fence(layout.name, commit)):
            spark.sql(f"MERGE INTO {layout.sql} AS t USING {view} AS s {clauses}").collect()
    finally:
        spark.catalog.dropTempView(view)
    entry = find_attempt(layout.uri, layout.name, commit.attempt)
    if entry is None:
        raise ConflictError(f"Commit {commit.number} of {layout.name} was made by another writer", where=layout.uri)
    return entry


def commit_nothing(spark: SparkSession, layout: Layout, commit: Commit) -> Entry:
    """Make a commit that holds no row and no file, whatever columns the table has: Delta writes it all the same."""
    nothing = read_table(spark, layout).where("false")
    return commit_merge(spark, layout, nothing, "ON false WHEN NOT MATCHED THEN INSERT *", commit)


def _fence(name: str, commit: Commit) -> dict[str, str]:
    """The transaction number and the metadata of a commit, as settings."""
    return {
        _TXN_APP_ID: app_id(name),
        _TXN_VERSION: str(commit.number),
        _USER_METADATA: commit.model_dump_json(),
    }


@contextmanager
def _writing(spark: SparkSession, layout: Layout, said: Mapping[str, str]) -> Iterator[None]:
    """Run one statement that writes: alone on a local disk, with these settings, its failures as errors of ours."""
    with (
        table_failures(layout.uri),
        _conflicts(layout.name),
        table_lock(layout.uri, layout.name),
        _session(spark, said),
    ):
        yield


@contextmanager
def _session(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these for one statement; left behind they would drop later writes, or put our name on them."""
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in settings:
            with suppress(PySparkException):
                spark.conf.unset(key)


@contextmanager
def _conflicts(name: str) -> Iterator[None]:
    """Turn Delta's concurrency errors, also of a creation by two writers at once, into ``ConflictError``."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if means(error, Trouble.CONFLICT):
            raise ConflictError(f"Another writer changed {name} in the same moment", where=name) from error
        raise
