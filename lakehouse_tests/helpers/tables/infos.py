"""Commits of a history, as deltalake returns them; the number of a commit of lakehouse is its version."""

from typing import Any

from lakehouse.ledger.commits import Commit, Kind


def maintained(version: int, rows_version: int) -> dict[str, Any]:
    """Return the commit that ends a maintenance that was planned on the previous version."""
    return own_info(version, "maintenance", table_version=version - 1, rows_version=rows_version)


def own_info(version: int, kind: Kind, **fields: Any) -> dict[str, Any]:
    details = Commit(kind=kind, number=version, attempt=f"a{version}", **fields)
    return commit(version, "MERGE", userMetadata=details.model_dump_json())


def merged(version: int, planned_on: int | None = None) -> dict[str, Any]:
    """Return the commit of a batch; its number is its version."""
    return own_info(version, "batch", table_version=version - 1 if planned_on is None else planned_on)


def commit(version: int, operation: str, **fields: Any) -> dict[str, Any]:
    return {"version": version, "timestamp": 1000 * version, "operation": operation, **fields}


def restored(version: int, to: int) -> dict[str, Any]:
    return commit(version, "RESTORE", operationParameters={"version": str(to)})
