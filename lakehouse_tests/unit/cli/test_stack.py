"""Which services ``up`` runs where nobody names any."""

from pathlib import Path

import pytest

from lakehouse.cli.services import Service
from lakehouse.cli.stack import _needed
from lakehouse.settings import Settings

TABLE = """
from lakehouse import Avro, Column, Json, StreamTable
orders = StreamTable("orders", "orders", "", [Column("id", "INT", "", required=True)], ["id"], format={format})
"""


@pytest.mark.parametrize(("written", "runs"), [("Json()", False), ("Json(framed=True)", False), ("Avro()", True)])
def test_a_registry_is_run_only_where_a_declared_table_is_read_by_its_schemas(
    written: str, runs: bool, tmp_path: Path
) -> None:
    folder = tmp_path / f"lake_{written.partition('(')[0].lower()}_{len(written)}"
    folder.mkdir()
    (folder / "orders.py").write_text(TABLE.replace("{format}", written))
    chosen = _needed(Settings(declarations=str(folder)))
    assert (Service.registry in chosen) is runs
    assert set(Service) - set(chosen) <= {Service.registry}
