"""A stream table as a person declares it: checked when it is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.declaration.rules.table_rules import table_problems
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas, WriterSchema
from lakehouse.decoding.record_parts import HEADER, TIME
from lakehouse.decoding.values import convert
from lakehouse.errors import DeclarationError


@dataclass(frozen=True)
class StreamTable(TableParts):
    """A table kept up to date from a topic, and everything that follows from it.

    Grain: one row for each ``key``; where the key is empty, one for each record: a log table, to which a record is
    added once, and which has no change feed, since it is one.
    ``version`` names a column that decides, before the broker's timestamp, which record is newer;
    ``order="offset"`` uses offsets alone instead, for topics whose
    producers date the records and whose keys stay in one partition: one that never gets more partitions, for keys
    then move to where offsets are lower, and their updates are stale. ``gaps`` decides what happens where
    records expired in the topic before they were merged: stop with an error, or record them and go on. Any
    other loss stops until a person accepts it.
    ``cluster_by`` names columns whose like values nightly compaction puts into the same files, where no partitions do.
    ``max_records`` is how many positions a batch takes at most, where nobody asks for another number.
    ``retention`` is how far back every table of the declaration can be read as it was then, at least.
    """

    def __post_init__(self) -> None:
        """Refuse a declaration that would corrupt its tables, or crash later."""
        for fact, action in table_problems(self):
            raise DeclarationError(f"Table {self.name!r}: {fact}", action=action)

    def decode(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        time: datetime | None = None,
        schemas: Mapping[int, WriterSchema] = NO_SCHEMAS.known,
    ) -> dict[str, Any]:
        """Decode one record into a value for each column that it tells; an absent or null field is ``None``.

        ``key``, ``headers`` and the broker's ``time``, which has a zone, are asked where a column takes its value from
        them, and ``schemas`` by their ids where the format has ids, as ``writer_schema`` makes them. Whether it is late
        is not asked: that depends on when the broker got it; computed columns are Spark's to compute. Raises
        ``Rejection`` with the reason and the detail where it may not enter, ``ValueError`` where the time has no zone.
        """
        if time and time.tzinfo is None:
            raise ValueError(f"The broker's time has no zone: {time}")
        beside: dict[str, Any] = {f"{HEADER}{name}": told for name, told in (headers or {}).items()}
        moment = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) if time else None
        parsed = self.format.parser(Schemas(schemas, {}))(value)
        return convert(parsed, self.fields, {**beside, "key": key, TIME: moment})


def declared_together(*tables: StreamTable) -> tuple[StreamTable, ...]:
    """Return the tables; ``DeclarationError`` where two declarations take the same name.

    Two tables over one folder would overwrite each other's rows, and Dagster takes no name twice.
    """
    owners: dict[str, str] = {}
    for table in tables:
        for name in table.names:
            if name in owners:
                fact = f"Table {table.name!r}: {name} is also a name of the declaration of {owners[name]!r}"
                raise DeclarationError(fact, action="Give one of the two another name.")
        owners |= dict.fromkeys(table.names, table.name)
    return tables
