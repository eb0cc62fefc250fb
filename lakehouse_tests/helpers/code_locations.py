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


def create_run(
    instance: dg.DagsterInstance,
    defs: dg.Definitions,
    job: str,
    *keys: str,
    location: str | None = None,
    **options: Any,
) -> dg.DagsterRun:
    """Record a run as Dagster does, of a job or of some of its assets, which plans the checks of its steps.

    Without a code location, it is a run as ``dagster job execute`` records it.
    """
    selection = frozenset(map(dg.AssetKey, keys)) or None
    job_definition = defs.get_repository_def().get_job(job)
    return instance.create_run_for_job(
        job_definition.get_subset(asset_selection=selection) if selection else job_definition,
        asset_selection=selection,
        remote_job_origin=repository_of(location).get_job_origin(job) if location else None,
        **options,
    )


def check_results(instance: dg.DagsterInstance, asset: dg.AssetKey, check: str) -> list[tuple[bool, str]]:
    """Whether a check passed, and its description, oldest first."""
    key = dg.AssetCheckKey(asset, check)
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
    evaluations = [record.evaluation for record in reversed(records) if record.evaluation]
    return [(evaluation.passed, evaluation.description or "") for evaluation in evaluations]
