"""The resource that every asset, check and sensor takes: the settings, and one Spark session a run."""

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
from lakehouse.spark.own_session import Active, activate, activate_again, find_active, keep_exact, others_active
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.statement import is_left
from lakehouse.storage.table_context import TableContext


class LakehouseResource(LazyPySparkResource):
    """The settings of this environment, and a Spark session that starts with the first step that needs it.

    The session is in UTC, is shared by the steps of a run and stopped when the run ends. Where the process has a Spark
    already, it is a session of its own on that one, which goes on; settings and views of others stay as they are.
    """

    spark_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Session settings on top of those of lakehouse.spark.sessions (spark.sql...),"
        " but those on which rows depend.",
    )
    _active_before: Active | None = PrivateAttr(default=None)

    @classmethod
    def with_settings(cls, given: Settings) -> "LakehouseResource":
        """The resource with these settings instead of the environment's."""

        class Given(cls):  # type: ignore[valid-type, misc]
            settings = property(lambda _: given)

        return Given()

    @property
    def settings(self) -> Settings:
        """The settings, read from the environment each time."""
        return Settings.load()

    def table_context(self, table: StreamTable, run: str = "dagster") -> TableContext:
        """What a step works with on a table; the session starts now."""
        return TableContext(self.spark_session, self.settings, table, run)

    @field_validator("spark_config")
    @classmethod
    def _require_free(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            require_free_conf(name)
        return given

    def _init_session(self) -> None:
        if self._spark_session is None:
            self._active_before = find_active()
            self._spark_session = build_session(self.settings)
            self._configure(self._spark_session)
        elif not is_left(self._spark_session):
            with spark_failures():
                changed = keep_exact(self._spark_session)
            if changed:
                self._configure(self._spark_session)
        activate(self._spark_session)

    def _configure(self, session: SparkSession) -> None:
        for name, value in self.spark_config.items():
            session.conf.set(name, value)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's
        """Stop the session, and the Spark where this resource started it for nobody else."""
        if self._spark_session is not None and self._active_before is not None:
            afterwards = self._active_before
            with suppress(Exception):  # a Java that has ended tells nothing
                active = find_active()
                afterwards = afterwards if active.session is self._spark_session else active
            stop_session(self._spark_session)
            activate_again(afterwards)
        self._spark_session = self._active_before = None


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error a person can act on into a failure with its text; trying again would not help.

    Afterwards the session that was active before is so again, for the other assets of the run.
    """
    try:
        with others_active():
            yield
    except LakehouseError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
