"""``TableRows``: the rows of another Delta table, and their changes, as the source of a table."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class TableRows:
    """The rows of another Delta table, first as they are, then each change: a record is a row as a JSON object.

    ``of`` is the name of a table under the root of the tables, declared or not, or the path or URI of another one. Its
    change data must be enabled. The field ``_change_type`` is ``insert``, ``update`` or ``delete``, and
    ``_commit_version`` is the version that changed the row. With ``former_rows``, each update is preceded by a record
    ``former`` with the row before it: needed if an update changes a value of the key.
    """

    of: str
    former_rows: bool = False

    position_noun: ClassVar[str] = "version"
    asset_suffix: ClassVar[str] = "source"

    @property
    def text(self) -> str:
        """The table, as a sentence names it."""
        return f"table {self.of}"

    @property
    def stream(self) -> str:
        """The name of the source in commits."""
        return self.of

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """What decides which records the table gives."""
        return ("rows of", self.of, self.former_rows)
