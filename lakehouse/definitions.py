"""Everything Dagster is told: made from the declared tables, the same for production, tests and users."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable, declared_together
from lakehouse.defs.assets import assets_of
from lakehouse.defs.automation import automation_of
from lakehouse.defs.checks import checks_of, verification_of
from lakehouse.defs.maintenance import maintenance_of
from lakehouse.defs.resources import LakehouseResource
from lakehouse.tables import TABLES


def build_defs(tables: Sequence[StreamTable] = TABLES, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """Make the definitions of these tables; ``resources`` may replace ``lakehouse``.

    All steps of a run share one process, whatever button started it, so that they share a Spark session.
    Raises ``DeclarationError`` where two declarations have a table of the same name.
    """
    tables = declared_together(*tables)
    made = dg.Definitions(
        assets=[asset for table in tables for asset in assets_of(table)],
        asset_checks=[check for table in tables for check in checks_of(table)],
        resources={"lakehouse": LakehouseResource(), **(resources or {})},
        executor=dg.in_process_executor,
    )
    kinds = (automation_of, maintenance_of, verification_of)
    return dg.Definitions.merge(made, *(definitions_of(table) for table in tables for definitions_of in kinds))


defs = build_defs()
