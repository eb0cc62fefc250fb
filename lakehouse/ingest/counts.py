"""What one look at the held rows of a batch finds: its records by outcome, and what prunes files of its MERGE."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import AccountingError
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.layout import TEXT_BOUND, literal

NOTHING = "false"  # prunes every file: for a batch without rows
_TO_EVERYBODY, _TEXT_TO_EVERYBODY = 50_000, 64 * 1024 * 1024  # rows of a source, and bytes of their texts
MOST_OTHERS = 100
"""Fields that no column takes, of one batch: so many are named at most."""
_MOST_PARTITIONS = 500  # literals in one statement; beyond it the range of the key prunes well enough


@dataclass(frozen=True)
class Counts:
    """The records of a batch by outcome; ``late`` are among those read, whatever became of them.

    ``partitions`` of the table are those in which its rows belong, where that follows from their keys; ``prune`` is a
    condition on the table (as ``t``) in literals that prunes the files in which no row of the batch can be. ``text``
    is how much there is in the columns of texts of what may enter, in bytes. ``others`` are the fields that no column
    takes, and in how many records they are.
    """

    read: int
    rejected: int
    duplicate: int
    late: int
    partitions: tuple[str, ...] | None = None
    prune: str = NOTHING
    text: int = 0
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def join(self) -> str:
        """The hint that keeps Spark from broadcasting the target where Delta counts the source.

        Where such a target is empty, Spark without generated code never reads the source, and Delta counts no row.
        """
        return "broadcast" if self.rows <= _TO_EVERYBODY and self.text <= _TEXT_TO_EVERYBODY else "merge"

    @property
    def rows(self) -> int:
        """How many rows are merged: one for each key, or record."""
        return self.read - self.rejected - self.duplicate

    def text_from(self, source: SourceId | None, orders: int = 1) -> int:
        """How many bytes of text the rows have to hold, where each names its source so many times."""
        return self.text + self.rows * orders * len(source.text if source else "")


def count_batch(held: DataFrame, table: StreamTable) -> Counts:
    """Count a batch in one aggregate over its held rows (with ``_reason``, NULL where a row may enter).

    Raises ``AccountingError`` where Spark gives no counts.
    """
    row = _of_each_key(held, table).agg(*_figures(table)).first()
    if row is None or row["keys"] is None:
        raise AccountingError("Spark returned no counts for the batch", where=table.name, action="Run it again.")
    read, rejected = int(row["read"]), int(row["rejected"])
    found, late = int(row["keys"]), int(row["late"])
    partitions = tuple(sorted(row["partitions"])) if _partition_follows_key(table) else None
    prune = _prune(row, table) if found else NOTHING
    others = _others(held) if row["others"] else {}
    return Counts(read, rejected, read - rejected - found, late, partitions, prune, int(row["text"]), others)


def _others(held: DataFrame) -> dict[str, int]:
    """The fields that no column takes, those of most records first; each batch of Arrow has told of its own."""
    told = Counter[str]()
    for (said,) in held.where(f"{staged.OTHERS} IS NOT NULL").select(staged.OTHERS).collect():
        told.update(json.loads(said))
    return dict(told.most_common(MOST_OTHERS))


def _of_each_key(held: DataFrame, table: StreamTable) -> DataFrame:
    """Records by outcome for each key; NULL is the key of those rejected. Plain sums, so that they are hashed.

    Of a log table all together: each record is alone.
    """
    figures = [F.count("*").alias("_read"), F.count(staged.REASON).alias("_rejected")]
    figures += [F.count_if(staged.LATE).alias("_late")]
    if table.partition_by and _partition_follows_key(table):
        figures.append(F.max(table.partition_by.name).alias("_belongs"))
    wide = (column.name for column in table.columns if column.type == "STRING" or column.is_nested)
    texts = [f"coalesce(octet_length(CAST(`{name}` AS STRING)), 0)" for name in wide]
    figures += [F.sum(F.expr(" + ".join(texts) or "0")).alias("_text"), F.count(staged.OTHERS).alias("_others")]
    return held.groupBy(*table.key).agg(*figures)


def _figures(table: StreamTable) -> list[Column]:
    """The figures of a batch, from those of its keys."""
    figures = [
        F.expr(f"coalesce(sum(_{name}), 0)").alias(name) for name in ("read", "rejected", "late", "text", "others")
    ]
    keys = F.count_if(F.expr("_read > _rejected")) if table.key else F.expr("coalesce(sum(_read - _rejected), 0)")
    figures.append(keys.alias("keys"))
    if _partition_follows_key(table):
        figures.append(F.expr("CAST(collect_set(_belongs) AS ARRAY<STRING>)").alias("partitions"))
    for name in _ranged_keys(table):
        figures += [
            F.expr(f"CAST({figure}(`{name}`) AS STRING)").alias(f"{figure}_{name}") for figure in ("min", "max")
        ]
    return figures


def _partition_follows_key(table: StreamTable) -> bool:
    return table.partition_by is not None and table.partition_by.column in table.key


def _ranged_keys(table: StreamTable) -> list[str]:
    """Key columns of which a file tells its least and greatest value, and these are exact."""
    return [name for name in table.key if table.by_name[name].type not in ("BOOLEAN", "DOUBLE")]


def _prune(row: Row, table: StreamTable) -> str:
    """A condition on target columns alone, in literals, that holds for every row a batch can touch."""
    terms = []
    partitions = sorted(row["partitions"]) if _partition_follows_key(table) else []
    if table.partition_by and 0 < len(partitions) <= _MOST_PARTITIONS:
        kind = {column.name: column.type for column in table.stored}[table.partition_by.name]
        literals = ", ".join(literal(partition, kind) for partition in partitions)
        terms.append(f"t.`{table.partition_by.name}` IN ({literals})")
    for name in _ranged_keys(table):
        least, most = row[f"min_{name}"], row[f"max_{name}"]
        if least is not None:
            terms += _within(f"t.`{name}`", least, most, table.by_name[name].type)
    return " AND ".join(terms) or "true"


def _within(column: str, least: str, most: str, kind: str) -> list[str]:
    """Conditions that hold for a column where it is neither less nor greater; of long texts only the beginning."""
    if kind != "STRING":
        return [f"{column} BETWEEN {literal(least, kind)} AND {literal(most, kind)}"]
    upper = [f"{column} <= {_text(most)}"] if len(most) <= TEXT_BOUND else []
    return [f"{column} >= {_text(least[:TEXT_BOUND])}", *upper]


def _text(value: str) -> str:
    """A text of a record in a statement: only the numbers of its characters stand there."""
    return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) <= 0xFFFF else f"\\U{ord(c):08x}" for c in value) + "'"
