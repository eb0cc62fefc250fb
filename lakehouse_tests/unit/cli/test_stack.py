"""The services that ``up`` runs by default."""

from pathlib import Path

import pytest

from lakehouse.cli.services import Service
from lakehouse.cli.stack import _default_services
from lakehouse.settings import Settings

TABLE = """
from lakehouse import Avro, Column, Json, StreamTable
orders = StreamTable("orders", "orders", "", [Column("id", "INT", "", required=True)], ["id"], format={format})
"""


@pytest.mark.parametrize(("format_text", "runs"), [("Json()", False), ("Json(framed=True)", False), ("Avro()", True)])
def test_a_registry_runs_only_if_a_declared_table_needs_its_schemas(
    format_text: str, runs: bool, tmp_path: Path
) -> None:
    folder = tmp_path / f"lake_{format_text.partition('(')[0].lower()}_{len(format_text)}"
    folder.mkdir()
    (folder / "orders.py").write_text(TABLE.replace("{format}", format_text))
    services = _default_services(Settings(declarations=str(folder)))
    assert (Service.registry in services) is runs
    assert set(Service) - set(services) <= {Service.registry}
