"""A folder of declarations for the tests of ``new-table``."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.kafka import registry_client
from lakehouse_tests.helpers.new_tables import ORDERS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of declarations, in a working directory with two sample records."""
    declarations = tmp_path / f"lake_{uuid4().hex}"
    declarations.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", declarations.name)
    Path("orders.jsonl").write_text("\n".join(map(json.dumps, ORDERS)) + "\n\n{\n", encoding="utf-8")
    return declarations


@pytest.fixture
def outside_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An external broker is set, which is not contacted; requests to a registry have no patience."""
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr(registry_client, "_PATIENCE", 0.0)
    return monkeypatch
