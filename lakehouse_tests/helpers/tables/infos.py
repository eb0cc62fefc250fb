"""Commits of a history, as deltalake tells them; the number of a commit of ours is its version."""

from typing import Any

from lakehouse.ledger.commits import Commit, Kind


def maintained(version: int, rows_version: int) -> dict[str, Any]:
    """The commit that ends maintenance, planned on the version before it."""
    return ours(version, "maintenance", table_version=version - 1, rows_version=rows_version)


def ours(version: int, kind: Kind, **more: Any) -> dict[str, Any]:
    said = Commit(kind=kind, number=version, attempt=f"a{version}", **more)
    return commit(version, "MERGE", userMetadata=said.model_dump_json())


def merged(version: int, planned_on: int | None = None) -> dict[str, Any]:
    """A commit of ours; its number is its version."""
    return ours(version, "batch", table_version=version - 1 if planned_on is None else planned_on)


def commit(version: int, operation: str, **more: Any) -> dict[str, Any]:
    return {"version": version, "timestamp": 1000 * version, "operation": operation, **more}


def restored(version: int, to: int) -> dict[str, Any]:
    return commit(version, "RESTORE", operationParameters={"version": str(to)})
