"""The text of a MERGE and of comparisons, and the bounds that decide about all rows; no other module makes a MERGE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.decoding.nested_types import nested
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import source_words

_MAP = "MAP<"


@dataclass(frozen=True)
class MergeSpec:
    """The clauses of a MERGE of source rows (``s``) into table rows (``t``), in SQL.

    ``on`` is the condition by which rows match. A matched row of the table is deleted if ``delete_if`` is true.
    Otherwise its columns get the values of ``update`` if ``update_if`` is true. An unmatched row of the source is
    inserted with the values of ``insert`` if ``insert_if`` is true. An empty ``delete_if`` deletes nothing; any other
    empty condition is true. With ``delete_unmatched``, unmatched rows of the table are deleted.
    """

    on: str
    update: Mapping[str, str] = field(default_factory=dict)
    insert: Mapping[str, str] = field(default_factory=dict)
    update_if: str = ""
    insert_if: str = ""
    delete_if: str = ""
    delete_unmatched: bool = False

    @property
    def clauses(self) -> str:
        """The part of the statement that starts with ``ON``."""
        parts = [f"ON {self.on}"]
        if self.delete_if:
            parts.append(f"WHEN MATCHED AND {self.delete_if} THEN DELETE")
        if self.update:
            values = ", ".join(f"t.{_quoted(name)} = {value}" for name, value in self.update.items())
            parts.append(f"WHEN MATCHED{_and_condition(self.update_if)} THEN UPDATE SET {values}")
        if self.insert:
            names = ", ".join(map(_quoted, self.insert))
            values = ", ".join(self.insert.values())
            parts.append(f"WHEN NOT MATCHED{_and_condition(self.insert_if)} THEN INSERT ({names}) VALUES ({values})")
        if self.delete_unmatched:
            parts.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
        return " ".join(parts)


def from_source(names: Sequence[str]) -> dict[str, str]:
    """Return assignments that give each column its value in the source."""
    return {name: f"s.{_quoted(name)}" for name in names}


def equal_keys(names: Sequence[str], side: str = "t") -> str:
    """Return the condition that rows of ``s`` and of another side are equal in these columns, which are never NULL."""
    return " AND ".join(f"s.{_quoted(name)} = {side}.{_quoted(name)}" for name in names)


def equal_values(names: Sequence[str]) -> str:
    """Return the condition that rows are equal in these columns; NULL equals NULL."""
    return " AND ".join(f"t.{_quoted(name)} <=> s.{_quoted(name)}" for name in names)


def keyed_spec(names: Sequence[str], key: Sequence[str], deleted_column: str) -> MergeSpec:
    """Return a MERGE of rows, one for each key, with these columns; rows with a true ``deleted_column`` are deleted."""
    value_columns = [name for name in names if name not in key]
    return MergeSpec(
        equal_values(key),
        from_source(value_columns),
        from_source(names),
        update_if=f"NOT ({equal_values(value_columns)})" if value_columns else "",
        insert_if=f"NOT s.{deleted_column}",
        delete_if=f"s.{deleted_column}",
    )


def _and_condition(condition: str) -> str:
    return f" AND {condition}" if condition else ""


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class ChangeBounds(NamedTuple):
    """Positions and orders that decide about all rows, as in ``Commit``; ``None`` if there are none.

    Changes of one partition before the position ``snapshot`` are compared by their offset alone. Rows before
    ``truncate`` are deleted. Of the deletes up to ``purged``, some are no longer known.
    """

    snapshot: int | None = None
    truncate: RecordOrder | None = None
    purged: RecordOrder | None = None

    @property
    def are_of_changes(self) -> bool:
        """Whether they have a position in the log of a database, as those of a change stream.

        The sequence of the rows of another table is its version.
        """
        orders = [
            order for order in (self.truncate, self.purged) if order and source_words(order.source).source != "table"
        ]
        return self.snapshot is not None or any(order.sequence is not None for order in orders)


NO_BOUNDS = ChangeBounds()


def bounds_of(commit: Commit) -> ChangeBounds:
    """Return what decides about all rows of a commit."""
    return ChangeBounds(commit.snapshot_position, commit.truncate, commit.purged)


def bounds_after(ledger: Ledger) -> ChangeBounds:
    """Return what decides about all rows that a table has now."""
    return bounds_of(ledger.newest.commit) if ledger.newest else NO_BOUNDS


def comparable(value: str, type_: str) -> str:
    """Return SQL that is equal for equal values and has an order: the value itself if it contains no map."""
    nested_type = nested(type_) if _MAP in type_ else None
    if nested_type is None:
        return value
    types = [inner_type for _, inner_type in nested_type.inner]
    item = f"_{type_.count('<')}"  # a unique name at each level
    if nested_type.kind == "ARRAY":
        return f"transform({value}, {item} -> {comparable(item, types[0])})"
    if nested_type.kind == "MAP":
        entry = f"struct({item}.key AS key, {comparable(f'{item}.value', types[1])} AS value)"
        return f"array_sort(transform(map_entries({value}), {item} -> {entry}))"
    fields = (f"'{name}', {comparable(f'{value}.`{name}`', inner_type)}" for name, inner_type in nested_type.inner)
    return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def comparable_row(row: str, types: Mapping[str, str]) -> str:
    """Return the comparable form of a row, a struct of columns of these types."""
    if not any(_MAP in type_ for type_ in types.values()):
        return row
    return f"IF({row} IS NULL, NULL, {struct_of(row, types)})"


def struct_of(side: str, types: Mapping[str, str]) -> str:
    """Return the comparable form of the columns of one side of a join, as a struct."""
    return f"struct({', '.join(comparable(f'{side}.`{name}`', type_) for name, type_ in types.items())})"
