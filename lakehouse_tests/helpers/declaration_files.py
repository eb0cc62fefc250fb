"""Files that declare tables, and the tables that are found in them."""

from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.discovery import declared_tables
from lakehouse.settings import Settings

TABLE = """
from lakehouse.declaration import Column, StreamTable
number = Column("id", "INT", "", required=True)
{name} = StreamTable(name="{name}", topic="{name}", doc="", columns=[number], key=["id"])
"""


def write(folder: Path, name: str, text: str = TABLE) -> None:
    (folder / f"{name}.py").write_text(text.replace("{name}", name), encoding="utf-8")


def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> Path:
    """Write files into a new folder of declarations, which the settings name, next to a home; return the folder.

    Its name is unique, as a process imports a name once.
    """
    folder = tmp_path / f"lake_{uuid4().hex}"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    return folder


def list_declared(folder: Path) -> list[str]:
    return [table.name for table in declared_tables(Settings(declarations=str(folder)))]
