"""Everything Dagster is told: made from declared tables, the same for production, tests and users."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable, declared_together
from lakehouse.defs.assets import assets_of
from lakehouse.defs.automation import automation_of
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.checks import checks_of, verification_of
from lakehouse.defs.maintenance_job import maintenance_of
from lakehouse.defs.resources import LakehouseResource
from lakehouse.discovery import declared_tables
from lakehouse.settings import Settings

_LAKEHOUSE = LakehouseResource()  # one for all: Dagster merges definitions whose resources of a name are the same


def build_defs(
    tables: Sequence[StreamTable] | None = None,
    resources: Mapping[str, Any] | None = None,
    *,
    key_prefix: Sequence[str] | str = (),
    group: str | None = None,
    owners: Sequence[str] | str | None = None,
) -> dg.Definitions:
    """Make the definitions of these tables, of all that are declared where none are named.

    Several of them merge, as those of tables in groups of their own. ``resources`` may replace ``lakehouse``.
    ``key_prefix`` stands before the name of each asset in its key; jobs and schedules have none. The assets of a table
    are in a group of its name and are its owner's, unless ``group`` or ``owners`` say otherwise. The steps of a job
    share one process, so that they share a Spark session; so do those of the Materialize button where the definitions
    have ``executor=dg.in_process_executor``.
    Raises ``DeclarationError`` where two declarations have a table of the same name, and what ``declared_tables``
    raises.
    """
    tables = declared_tables(Settings.load()) if tables is None else declared_together(*tables)
    prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    whose = (owners,) if isinstance(owners, str) else owners
    listed = [Listed(table, prefix, group, whose) for table in tables]
    made = dg.Definitions(
        assets=[asset for each in listed for asset in assets_of(each)],
        asset_checks=[check for each in listed for check in checks_of(each)],
        resources={"lakehouse": _LAKEHOUSE, **(resources or {})},
    )
    kinds = (automation_of, maintenance_of, verification_of)
    return dg.Definitions.merge(made, *(definitions_of(each) for each in listed for definitions_of in kinds))
