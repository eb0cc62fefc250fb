"""What rows are merged into: the table, its declaration, and what is deleted in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.staged import DELETE
from lakehouse.ledger.log import open_table
from lakehouse.storage.bounds import NO_BOUNDS, ChangeBounds
from lakehouse.storage.layout import COLUMNS_PROPERTY, TEXT_TYPES
from lakehouse.storage.merge_spec import equal_keys
from lakehouse.storage.named_orders import not_truncated
from lakehouse.storage.row_order import KEPT, is_new_delete, not_deleted, not_deleted_now
from lakehouse.storage.stored_table import StoredTable


@dataclass(frozen=True)
class Target:
    """The table that rows are merged into, its declaration, and the stored delete of each key, if there are any.

    ``bounds`` are those of the commit. ``has_new_deletes``: some rows to merge have a delete of their key.
    """

    table: TableParts
    merged: StoredTable
    deletes: DataFrame | None = None
    bounds: ChangeBounds = NO_BOUNDS
    has_new_deletes: bool = False

    @property
    def not_deleted(self) -> Callable[..., str]:
        """Return the SQL condition that a row, or its kept column, is not older than a delete or a truncate."""
        conditions = [not_deleted] if self.deletes is not None else []
        conditions += [not_deleted_now] if self.has_new_deletes else []
        conditions += [not_truncated] if self.bounds.truncate is not None and self.table.has_truncates else []
        return lambda *place: (
            " AND ".join(condition(self.table, self.bounds, *place) for condition in conditions) or "true"
        )

    @property
    def new_delete(self) -> str:
        """The SQL of the delete of the batch if it has to be stored, else NULL."""
        is_new = is_new_delete(self.table, self.bounds, has_stored=self.deletes is not None)
        return f"IF({is_new}, s.{DELETE}, NULL)"

    @property
    def same_key(self) -> str:
        """The SQL condition that the key of ``s`` equals the key of ``t``."""
        return equal_keys(self.table.key)

    @property
    def text_columns(self) -> set[str]:
        """The columns of texts and bytes that are not part of the key."""
        return {name for name in self.table.values if self.table.by_name[name].type in TEXT_TYPES}

    def column_types(self, names: Sequence[str]) -> dict[str, str]:
        """Return the types of columns; empty for a column that is not in the layout."""
        types = {column.name: column.type for column in self.merged.layout.columns}
        return {name: types.get(name, "") for name in names}

    def value_columns(self, stored_rows: DataFrame) -> list[str]:
        """Return the columns of the layout without the key, and ``_kept`` even if no column is kept any longer."""
        names = [name for name in self.merged.layout.names if name not in self.table.key]
        return [*names, KEPT] if KEPT in stored_rows.columns and KEPT not in names else names

    def undeclared_columns(self, stored_rows: DataFrame) -> list[str]:
        """Return the columns that are not declared any longer: a newer record has no value for them."""
        delta_table = open_table(self.merged.layout.uri)
        declared_names = (
            delta_table.metadata().configuration.get(COLUMNS_PROPERTY, "").split(",") if delta_table else []
        )
        return [
            name
            for name in stored_rows.columns
            if name in declared_names and name not in (*self.merged.layout.names, KEPT)
        ]
