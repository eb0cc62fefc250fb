"""Read the parts within a part of a computed column's SQL: as one kind, or with a common kind."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.functions import NULL, NUMBERS, NotComputable, Part, cast_null
from lakehouse.declaration.sql.literals import require_kind, shown_sql

if TYPE_CHECKING:
    from sqlglot import exp


class PartReader(ABC):
    """Reads the parts of a parsed expression over columns of known types; ``places`` is SQL in place of their names."""

    def __init__(self, columns: Mapping[str, str], places: Mapping[str, str]) -> None:
        self.columns = {name.lower(): type_ for name, type_ in columns.items()}
        self.places = {name.lower(): sql for name, sql in places.items()}

    @abstractmethod
    def read(self, node: "exp.Expr | None") -> Part:
        """The SQL of a part; ``NotComputable`` if the part is not supported."""

    def read_as(self, node: "exp.Expr", *kinds: str) -> Part:
        """The SQL of a part that must have one of the kinds, or NULL."""
        part = self.read(node)
        require_kind(node, part, kinds)
        return cast_null(part, kinds[0])

    def read_alike(self, nodes: Sequence["exp.Expr"]) -> tuple[list[str], str]:
        """The SQL of parts that must have a common kind, and that kind."""
        parts = [self.read(node) for node in nodes]
        kinds = {part.kind for part in parts} - {NULL}
        if kinds <= {*NUMBERS}:
            kind = max(kinds, key=NUMBERS.index, default=NULL)
        elif len(kinds) == 1:
            (kind,) = kinds
        else:
            operands = ", ".join(f"{shown_sql(node)} ({part.kind})" for node, part in zip(nodes, parts, strict=True))
            raise NotComputable(
                f"these cannot be combined: {operands}",
                "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
            )
        return [cast_null(part, kind).sql for part in parts], kind
