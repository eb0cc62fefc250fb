"""Assets that follow tables: the job that updates one, and the sensor that requests it if its tables have news."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import dagster as dg

from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.runs import reason_to_wait, sensor_location, unfinished_run
from lakehouse.settings import Settings

TICK_INTERVAL = 15
"""Seconds between two looks at the tables."""


class Follower(Protocol):
    """What follows tables: an export, or a materialized view."""

    @property
    def name(self) -> str:
        """The name of its asset."""
        ...

    @property
    def job_name(self) -> str:
        """The name of the job that updates it."""
        ...

    @property
    def sensor_name(self) -> str:
        """The name of the sensor that requests the job."""
        ...


class Following(NamedTuple):
    """How an asset follows its tables.

    ``waits_for`` returns the table that does not exist yet, if nothing can be read before, and ``find_news`` a text
    that names the news. ``purpose`` is what the job does, and ``tables`` which tables it reads, as people read them.
    """

    follower: Follower
    purpose: str
    tables: str
    waits_for: Callable[[Settings], str | None]
    find_news: Callable[[Settings], str | None]


def build_follower(asset: dg.AssetsDefinition, spec: dg.AssetSpec, following: Following) -> dg.Definitions:
    """Build the job and the sensor of an asset. A failure to find news fails the tick."""
    follower = following.follower
    job = dg.define_asset_job(
        follower.job_name,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(spec.key),
        description=f"{following.purpose}, if there is news in {following.tables}.",
    )

    @dg.sensor(
        name=follower.sensor_name,
        job=job,
        minimum_interval_seconds=TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run of {follower.job_name} if rows of {following.tables} changed since the last one.",
    )
    def evaluate(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.RunRequest | dg.SkipReason:
        if missing_table := following.waits_for(lakehouse.settings):
            return dg.SkipReason(f"{follower.name} reads {missing_table}, which does not exist yet.")
        news = following.find_news(lakehouse.settings)
        no_news = f"No news: {follower.name} has every row of {following.tables}."
        return _request_run(context, spec, follower, news) if news else dg.SkipReason(no_news)

    return dg.Definitions(assets=[asset], jobs=[job], sensors=[evaluate])


def _request_run(
    context: dg.SensorEvaluationContext, spec: dg.AssetSpec, follower: Follower, news: str
) -> dg.RunRequest | dg.SkipReason:
    """Request a run for the news, unless one is updating the asset, or a failed one is to be tried again later."""
    location, now = sensor_location(context), datetime.now(UTC)
    if unfinished_run(context.instance, spec.key, location):
        return dg.SkipReason(f"A run is updating {follower.name}.")
    reason = reason_to_wait(context.instance, follower.job_name, spec.key, now, location)
    return dg.SkipReason(reason) if reason else dg.RunRequest(tags={"lakehouse/news": news})
