"""A new folder of declarations for each test."""

import sys
from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for declarations in the working directory; its name is unique, as a process imports a name once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    monkeypatch.setattr(sys, "path", [*sys.path])
    declarations = tmp_path / f"lake_{uuid4().hex}"
    declarations.mkdir()
    return declarations
