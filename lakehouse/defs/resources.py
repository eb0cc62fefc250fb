"""The resource of every asset, check and sensor: the settings, and one Spark session per run."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr, field_validator
from pyspark.sql import SparkSession

from lakehouse.declaration import StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import require_free_conf
from lakehouse.spark.own_session import (
    ActiveState,
    activate,
    activate_former,
    keep_exact,
    read_active_state,
    restore_active_state,
)
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.statement import is_abandoned
from lakehouse.storage.table_context import TableContext


class LakehouseResource(LazyPySparkResource):
    """The settings of this environment, and a Spark session that starts with the first step that needs it.

    The session uses UTC. The steps of a run share it, and it stops when the run ends. If the process already has a
    Spark, the resource opens its own session on it; that Spark keeps running, and the settings and views of other
    sessions do not change.
    """

    spark_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Session settings in addition to those of lakehouse.spark.sessions (spark.sql...)."
        " Settings that change the rows are refused.",
    )
    _active_before: ActiveState | None = PrivateAttr(default=None)

    @classmethod
    def with_settings(cls, given: Settings) -> "LakehouseResource":
        """The resource with these settings instead of the settings of the environment."""

        class WithSettings(cls):  # type: ignore[valid-type, misc]
            settings = property(lambda _: given)

        return WithSettings()

    @property
    def settings(self) -> Settings:
        """The settings, read from the environment on each access."""
        return Settings.load()

    def table_context(self, table: StreamTable, run: str = "dagster") -> TableContext:
        """The context in which a step works on a table. Starts the session."""
        return TableContext(self.spark_session, self.settings, table, run)

    @field_validator("spark_config")
    @classmethod
    def _require_free(cls, config: dict[str, Any]) -> dict[str, Any]:
        for name in config:
            require_free_conf(name)
        return config

    def _init_session(self) -> None:
        if self._spark_session is None:
            self._active_before = read_active_state()
            self._spark_session = build_session(self.settings)
            self._configure(self._spark_session)
        elif not is_abandoned(self._spark_session):
            with spark_failures():
                has_changed = keep_exact(self._spark_session)
            if has_changed:
                self._configure(self._spark_session)
        activate(self._spark_session)

    def _configure(self, session: SparkSession) -> None:
        for name, value in self.spark_config.items():
            session.conf.set(name, value)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Stop the session, and also its Spark if this resource started it and nothing else uses it."""
        if self._spark_session is not None and self._active_before is not None:
            active_after = self._active_before
            with suppress(Exception):  # a Java process that has ended does not answer
                active = read_active_state()
                active_after = active_after if active.session is self._spark_session else active
            stop_session(self._spark_session)
            activate_former(active_after)
        self._spark_session = self._active_before = None


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error that a person can act on into a Dagster failure with its text, without retries.

    At the end, the session that was active before is active again, for the other assets of the run.
    """
    try:
        with restore_active_state():
            yield
    except LakehouseError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
