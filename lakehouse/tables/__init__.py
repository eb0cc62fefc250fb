"""The declared tables: one file each. To add a topic, write a file beside this one and add its table to the list."""

from lakehouse.declaration import StreamTable, declared_together
from lakehouse.errors import LakehouseError
from lakehouse.tables.temperatures import temperatures

TABLES: tuple[StreamTable, ...] = declared_together(temperatures)


def find_table(name: str) -> StreamTable:
    """Return the declared table of that name, or raise with the names there are."""
    for table in TABLES:
        if table.name == name:
            return table
    names = ", ".join(table.name for table in TABLES)
    raise LakehouseError(f"No table is declared as {name!r}", action=f"Declared: {names}.")
