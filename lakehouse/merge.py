"""Rows → the merged table: newest per key, columns kept by themselves, stale rows left out, files pruned.

The order of rows is total: a declared version column first, then broker timestamp, partition, offset and,
for rows without an offset, the version of the base table. It is compared as a struct built in place, in
which NULL is smallest: base rows are older than any record.
"""

from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.commits import Commit, Entry
from lakehouse.declaration import StreamTable
from lakehouse.delta import Layout, TableColumn, commit_merge, read_table
from lakehouse.errors import AccountingError
from lakehouse.settings import Settings

_ORDER = (
    TableColumn("kafka_timestamp", "TIMESTAMP", "When the broker got the newest record, UTC; NULL for base rows."),
    TableColumn("kafka_partition", "INT", "Partition of the newest record; NULL for base rows."),
    TableColumn("kafka_offset", "BIGINT", "Offset of the newest record; NULL for base rows."),
    TableColumn("base_version", "BIGINT", "Version of the base table the row came with; NULL for streamed rows."),
)
NOTHING = "false"  # prunes every file: for a batch without rows
_FEW_ROWS = 50_000  # of a source that Spark may send to every executor
_MOST_PARTITIONS = 500  # literals in one statement; beyond it the range of the key prunes well enough


def merged_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the merged table is stored: declared columns, partition column, order, order of each kept column."""
    columns = [TableColumn(c.name, c.type, c.doc) for c in table.columns]
    if table.partition_by:
        columns.append(TableColumn(table.partition_by.name, "DATE", "First day of the month; partition column."))
    columns += _ORDER
    for name in table.keep:
        columns += [TableColumn(f"{name}_{c.name}", c.type, f"Of the record {name} came with: {c.doc}") for c in _ORDER]
        if table.version:
            version = table.by_name[table.version]
            columns.append(TableColumn(f"{name}_{version.name}", version.type, f"Version {name} came with."))
    partition = table.partition_by.name if table.partition_by else None
    return Layout(
        table.name,
        settings.table_uri(table.name),
        table.doc,
        columns,
        partition,
        statistics=[*table.key, "kafka_partition", "kafka_offset"],
        change_data=True,
        retention=table.retention,
        anchors=[*table.key, *(column.name for column in _ORDER)],
        declaration=table.fingerprint,
    )


def _order_columns(table: StreamTable, prefix: str = "") -> list[str]:
    """Names of the columns that hold an order: the row's, or with a prefix that of a kept column."""
    version = [f"{prefix}{table.version}"] if table.version and prefix else []
    return [*version, *(f"{prefix}{column.name}" for column in _ORDER)]


def _order(table: StreamTable, alias: str = "", prefix: str = "", *, rebased: bool = False) -> str:
    """The order as a SQL struct that compares rightly.

    ``rebased`` takes the stored base versions for older than any: the base table was made anew.
    """
    at = f"{alias}." if alias else ""
    names = ["kafka_offset"] if table.order == "offset" else [c.name for c in _ORDER[:3]]
    parts = [f"{at}`{prefix}{name}`" for name in names]
    if table.version:
        # a version counts between records only: base rows are older whatever they say
        parts.insert(0, f"IF({at}`{prefix}kafka_offset` IS NULL, NULL, {at}`{prefix}{table.version}`)")
    parts.append("CAST(NULL AS BIGINT)" if rebased else f"{at}`{prefix}base_version`")
    return f"struct({', '.join(parts)})"


def newest_per_key(rows: DataFrame, table: StreamTable) -> DataFrame:
    """Reduce rows to one for each key: the newest row, and of each kept column its newest value.

    In: declared columns, partition column and order. Out: the same and the order of each kept column,
    NULL where no row of the key has a value.
    """
    apart = {*table.key, *table.keep}
    partition = [table.partition_by.name] if table.partition_by else []
    own = [c for c in [*(c.name for c in table.columns), *partition] if c not in apart] + _order_columns(table)
    order = _order(table)
    figures = [F.expr(f"max_by(struct({', '.join(f'`{c}`' for c in own)}), {order})").alias("newest")]
    for name in table.keep:
        stored = [f"`{c}` AS `{name}_{c}`" for c in ([table.version] if table.version else []) + _order_columns(table)]
        value = f"max_by(struct(`{name}`, {', '.join(stored)}), {order}) FILTER (WHERE `{name}` IS NOT NULL)"
        figures.append(F.expr(value).alias(f"newest_{name}"))
    grouped = rows.groupBy(*table.key).agg(*figures)
    return grouped.select(*table.key, "newest.*", *(f"newest_{name}.*" for name in table.keep))


@dataclass(frozen=True)
class Counts:
    """What one look at the held rows of a batch found: its records by outcome, and what prunes files."""

    read: int
    rejected: int
    duplicate: int
    late: int
    prune: str


def count_batch(held: DataFrame, table: StreamTable) -> Counts:
    """Count a batch in one aggregate over its held rows (with ``reason``, NULL where a row may enter).

    Raises ``AccountingError`` where Spark gives no counts.
    """
    valid = "reason IS NULL"
    keys = f"struct({', '.join(f'`{name}`' for name in table.key)})"
    figures = [
        F.count("*").alias("read"),
        F.count("reason").alias("rejected"),
        F.count_if("is_late").alias("late"),
        F.expr(f"count(DISTINCT IF({valid}, {keys}, NULL))").alias("keys"),
        *_prune_figures(table),
    ]
    row = held.agg(*figures).first()
    if row is None or row["read"] is None:
        raise AccountingError("Spark returned no counts for the batch", where=table.name, action="Run it again.")
    read, rejected = int(row["read"]), int(row["rejected"])
    found, late = int(row["keys"]), int(row["late"])
    return Counts(read, rejected, read - rejected - found, late, _prune(row, table) if found else NOTHING)


def _partition_follows_key(table: StreamTable) -> bool:
    return table.partition_by is not None and table.partition_by.column in table.key


def _prune_figures(table: StreamTable) -> list[Column]:
    figures = []
    if table.partition_by and _partition_follows_key(table):
        figures.append(F.expr(f"collect_set(CAST(`{table.partition_by.name}` AS STRING))").alias("partitions"))
    for name in _ranged_keys(table):
        figures += [
            F.expr(f"CAST({figure}(`{name}`) AS STRING)").alias(f"{figure}_{name}") for figure in ("min", "max")
        ]
    return figures


def _ranged_keys(table: StreamTable) -> list[str]:
    """Key columns whose values may stand in a statement: times and numbers, never text of a record."""
    return [name for name in table.key if table.by_name[name].type not in ("STRING", "BOOLEAN", "DOUBLE")]


def _prune(row: Row, table: StreamTable) -> str:
    """A condition on target columns alone, in literals, that holds for every row a batch can touch."""
    terms = []
    months = sorted(row["partitions"]) if _partition_follows_key(table) else []
    if table.partition_by and 0 < len(months) <= _MOST_PARTITIONS:
        literals = ", ".join(_literal(month, "DATE") for month in months)
        terms.append(f"t.`{table.partition_by.name}` IN ({literals})")
    for name in _ranged_keys(table):
        least, most = row[f"min_{name}"], row[f"max_{name}"]
        if least is not None:
            kind = table.by_name[name].type
            terms.append(f"t.`{name}` BETWEEN {_literal(least, kind)} AND {_literal(most, kind)}")
    return " AND ".join(terms) or "true"


def _literal(text: str, kind: str) -> str:
    if kind in ("DATE", "TIMESTAMP"):
        return f"{kind}'{text}'"
    return f"{Decimal(text)}BD" if kind.startswith("DECIMAL") else str(int(text))


@dataclass(frozen=True)
class _Newer:
    """When a source row ``s`` is newer than the target row ``t``: as a whole, and for each kept column."""

    row: str
    keep: dict[str, str]

    @property
    def anything(self) -> str:
        return " OR ".join([self.row, *self.keep.values()])


def _newer(table: StreamTable, *, rebased: bool) -> _Newer:
    def beats(prefix: str) -> str:
        return f"{_order(table, 's', prefix)} > {_order(table, 't', prefix, rebased=rebased)}"

    keep = {name: f"(s.`{name}` IS NOT NULL AND {beats(f'{name}_')})" for name in table.keep}
    return _Newer(f"({beats('')})", keep)


@dataclass(frozen=True)
class Target:
    """Where rows are merged to, and how."""

    table: StreamTable
    layout: Layout
    rebased: bool = False

    @property
    def same_key(self) -> str:
        """The key of ``s`` equals that of ``t``."""
        return " AND ".join(f"s.`{name}` = t.`{name}`" for name in self.table.key)


def merge_rows(spark: SparkSession, target: Target, newest: DataFrame, prune: str, commit: Commit) -> Entry:
    """Merge rows, one for each key, into the merged table; rows that are older than the table's are stale.

    Stale rows take part in no match and no insert, so that a replay writes no data file, but the MERGE
    counts them: what Delta says of its source is every row of the batch.
    """
    newer = _newer(target.table, rebased=target.rebased)
    flagged = _flag_stale(spark, target, newest, prune, newer)
    clauses = (
        f"ON {target.same_key} AND {prune} AND NOT s.is_stale"
        f" WHEN MATCHED AND ({newer.anything}) THEN UPDATE SET {_assignments(target.table, target.layout, newer)}"
        f" WHEN NOT MATCHED AND NOT s.is_stale THEN INSERT ({', '.join(f'`{c}`' for c in target.layout.names)})"
        f" VALUES ({', '.join(f's.`{c}`' for c in target.layout.names)})"
    )
    return commit_merge(spark, target.layout, flagged.hint(_join(commit)), clauses, commit)


def _join(commit: Commit) -> str:
    """The hint that keeps Spark from broadcasting the target where Delta counts the source.

    Where such a target is empty, Spark without generated code never reads the source, and Delta counts no row.
    """
    return "broadcast" if commit.read - commit.rejected - commit.duplicate <= _FEW_ROWS else "merge"


def _flag_stale(spark: SparkSession, target: Target, newest: DataFrame, prune: str, newer: _Newer) -> DataFrame:
    stored = read_table(spark, target.layout).alias("t")
    stale = f"t.`{target.table.key[0]}` IS NOT NULL AND NOT ({newer.anything})"
    joined = newest.alias("s").join(stored, F.expr(f"{target.same_key} AND {prune}"), "left")
    return joined.select("s.*", F.expr(stale).alias("is_stale"))


def _assignments(table: StreamTable, layout: Layout, newer: _Newer) -> str:
    kept = {c: name for name in table.keep for c in (name, *_order_columns(table, f"{name}_"))}
    wins = {c: newer.keep[kept[c]] if c in kept else newer.row for c in layout.names if c not in table.key}
    return ", ".join(f"t.`{c}` = IF({wins[c]}, s.`{c}`, t.`{c}`)" for c in wins)
