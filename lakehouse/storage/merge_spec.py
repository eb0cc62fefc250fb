"""The one place in which the text of a MERGE is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class MergeSpec:
    """What a MERGE does with the rows of its source (``s``) and those of the table (``t``), in SQL.

    ``on`` says which of them match. Of those that match, the row of the table is deleted if ``delete_if`` holds, else
    its columns get the values of ``update``, if ``update_if`` holds. A row of the source that matches none is inserted
    with the values of ``insert``, if ``insert_if`` holds. Without ``delete_if`` nothing is deleted; without another
    condition, it always holds. With ``delete_unmatched``, rows of the table that match none are deleted.
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
        """The statement from ``ON`` on."""
        parts = [f"ON {self.on}"]
        if self.delete_if:
            parts.append(f"WHEN MATCHED AND {self.delete_if} THEN DELETE")
        if self.update:
            values = ", ".join(f"t.{_quoted(name)} = {value}" for name, value in self.update.items())
            parts.append(f"WHEN MATCHED{_further(self.update_if)} THEN UPDATE SET {values}")
        if self.insert:
            names = ", ".join(map(_quoted, self.insert))
            values = ", ".join(self.insert.values())
            parts.append(f"WHEN NOT MATCHED{_further(self.insert_if)} THEN INSERT ({names}) VALUES ({values})")
        if self.delete_unmatched:
            parts.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
        return " ".join(parts)


def from_source(names: Sequence[str]) -> dict[str, str]:
    """Each column gets the value of the source."""
    return {name: f"s.{_quoted(name)}" for name in names}


def equal_keys(names: Sequence[str]) -> str:
    """Rows match by these columns, of which none is NULL."""
    return " AND ".join(f"s.{_quoted(name)} = t.{_quoted(name)}" for name in names)


def equal_values(names: Sequence[str]) -> str:
    """Rows have the same values in these columns; NULL equals NULL."""
    return " AND ".join(f"t.{_quoted(name)} <=> s.{_quoted(name)}" for name in names)


def keyed_spec(names: Sequence[str], key: Sequence[str], gone: str) -> MergeSpec:
    """The table holds these columns of the rows, one for each key; a row that is ``gone`` is deleted."""
    others = [name for name in names if name not in key]
    return MergeSpec(
        equal_values(key),
        from_source(others),
        from_source(names),
        update_if=f"NOT ({equal_values(others)})" if others else "",
        insert_if=f"NOT s.{gone}",
        delete_if=f"s.{gone}",
    )


def _further(condition: str) -> str:
    return f" AND {condition}" if condition else ""


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
