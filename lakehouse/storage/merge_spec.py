"""The text of a MERGE; no other module makes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
