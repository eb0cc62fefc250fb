"""Code locations of Dagster: the contexts of their sensors, and the origins of their runs."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin


def repository_of(location: str) -> RemoteRepositoryOrigin:
    """The repository of a code location with this name."""
    return RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")


def sensor_context(
    defs: dg.Definitions,
    instance: dg.DagsterInstance,
    resources: Mapping[str, Any],
    cursor: str | None,
    location: str | None,
) -> dg.SensorEvaluationContext:
    """The context in which the daemon evaluates a sensor of a code location; ``None`` for one that a test builds."""
    repository = defs.get_repository_def()
    context = dg.SensorEvaluationContext(
        instance_ref=None,
        instance=instance,
        cursor=cursor,
        repository_name=repository.name,
        repository_def=repository,
        code_location_origin=RegisteredCodeLocationOrigin(location) if location else None,
    )
    return context.merge_resources(resources)
