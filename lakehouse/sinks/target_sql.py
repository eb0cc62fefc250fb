"""What the statements of a target are made of, in any database. Makes text; no input or output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.sinks.changed_rows import GONE, UNFIT

PROGRESS_COLUMNS = ("sink", "table_id", "version", "commit_id", "columns", "identity", "run")
"""The columns of the progress after the name of the target."""


@dataclass(frozen=True)
class TargetParts:
    """One target: its quoted ``name``, the types of its columns, and what identifies a row.

    ``progress`` is the quoted name of the table with the progress. ``can_be_null``: a part of the identity may be NULL.
    ``unfit`` is the quoted name of the table with the keys of rows that are left out; empty if none are. ``stage`` is
    that of the temporary table with the rows of a run.
    """

    stage: ClassVar[str]

    name: str
    progress: str
    types: Mapping[str, str]
    identity: tuple[str, ...]
    can_be_null: bool
    unfit: str = ""

    def columns_of(self, table: str) -> tuple[str, ...]:
        """The columns of the target, or of the stage, which has further ones after them."""
        more_columns = (GONE, UNFIT) if self.unfit else (GONE,)
        return (*self.types, *more_columns) if table == self.stage else tuple(self.types)
