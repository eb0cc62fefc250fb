"""Files that declare tables, and the tables that are found in them."""

from pathlib import Path

from lakehouse.discovery import declared_tables
from lakehouse.settings import Settings

TABLE = """
from lakehouse.declaration import Column, StreamTable
number = Column("id", "INT", "", required=True)
{name} = StreamTable(name="{name}", topic="{name}", doc="", columns=[number], key=["id"])
"""


def write(folder: Path, name: str, text: str = TABLE) -> None:
    (folder / f"{name}.py").write_text(text.replace("{name}", name), encoding="utf-8")


def list_declared(folder: Path) -> list[str]:
    return [table.name for table in declared_tables(Settings(declarations=str(folder)))]
