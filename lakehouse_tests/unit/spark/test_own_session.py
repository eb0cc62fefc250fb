"""Our session on a Spark Connect server with sessions of other code, which never get our session by accident."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import connect
from lakehouse.spark.connect import join, join_same_server
from lakehouse.spark.own_session import activate, restore_active_state, running_session, stop
from lakehouse.storage.statement import run_statement
from lakehouse_tests.helpers.attacks.other_sessions import resource_of
from lakehouse_tests.helpers.brokers.silent_connect import SilentService, silent_server

MODE, ZONE = "SPARK_CONNECT_MODE_ENABLED", "spark.sql.session.timeZone"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def _short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_FAREWELL", 0.2)


@pytest.fixture
def server() -> Iterator[tuple[str, SilentService]]:
    with silent_server() as address_and_service:
        yield address_and_service


@pytest.fixture
def settings(server: tuple[str, SilentService]) -> Settings:
    return Settings(spark_remote=server[0], _env_file=None)


@pytest.fixture
def foreign_session(server: tuple[str, SilentService], monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session of other code, with its own id; it is the active session and the default."""
    monkeypatch.setenv(MODE, "1")
    session = SparkSession.builder.remote(f"{server[0]}/;session_id={uuid4()}").create()
    yield session
    session.client.close()


def test_our_session_is_a_new_one_and_active_only_while_we_work(foreign_session: SparkSession) -> None:
    assert running_session() is foreign_session
    with restore_active_state():
        our_session = join_same_server(foreign_session)
        assert our_session.client._session_id != foreign_session.client._session_id
        activate(our_session)
        assert SparkSession.getActiveSession() is our_session
    assert SparkSession.getActiveSession() is foreign_session
    assert ConnectSession._get_default_session() is foreign_session  # type: ignore[comparison-overlap]
    our_session.client.close()


def test_a_server_of_this_process_outlives_our_session(
    foreign_session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    our_session = join_same_server(foreign_session)
    monkeypatch.setattr(our_session.client, "release_session", lambda: None)
    stop(our_session)
    assert our_session.client.is_closed
    assert "SPARK_LOCAL_REMOTE" in os.environ, "PySpark removes it when it stops the server"
    assert SparkSession.getActiveSession() is foreign_session


def test_a_silent_server_of_other_code_is_an_error(
    foreign_session: SparkSession, server: tuple[str, SilentService], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FIRST_ANSWER", 0.5)
    server[1].silent.set()
    with pytest.raises(SetupError, match="does not answer as a Spark Connect server.*the session that this process"):
        join_same_server(foreign_session)


def test_the_builder_never_returns_our_session_to_other_code(
    settings: Settings, server: tuple[str, SilentService]
) -> None:
    with resource_of(settings) as resource:
        with explained():
            our_session = resource.spark_session
        foreign_session = SparkSession.builder.remote(server[0]).config(ZONE, "Europe/Berlin").getOrCreate()
        assert foreign_session is not our_session
        assert (foreign_session.conf.get(ZONE), our_session.conf.get(ZONE)) == ("Europe/Berlin", "UTC")
        foreign_session.client.close()
        assert not our_session.client.is_closed


def test_a_session_without_an_answer_is_neither_active_nor_the_default(
    settings: Settings, server: tuple[str, SilentService], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FIRST_ANSWER", 0.5)
    server[1].silent.set()
    with pytest.raises(SetupError):
        join(settings, {ZONE: "UTC"})
    assert ConnectSession._default_session is None
    assert ConnectSession._active_session.session is None
    assert MODE not in os.environ


def test_after_a_step_on_a_server_pyspark_can_start_its_own_spark_again(settings: Settings) -> None:
    with resource_of(settings) as resource:
        for _ in range(2):
            with explained():
                assert SparkSession.getActiveSession() is None
                assert resource.spark_session is SparkSession.getActiveSession()
                assert MODE in os.environ
            assert MODE not in os.environ
    assert MODE not in os.environ


def test_during_a_statement_that_writes_its_session_is_the_active_one(
    settings: Settings, foreign_session: SparkSession, tmp_path: Path
) -> None:
    active_sessions: list[SparkSession] = []
    with restore_active_state():
        our_session = join(settings, {ZONE: "UTC"})
        activate(our_session)
        run_statement(our_session, str(tmp_path / "table"), lambda: active_sessions.append(SparkSession.active()))
    assert active_sessions == [our_session]
    our_session.client.close()


def test_the_end_of_a_run_does_not_stop_sessions_of_other_code(
    settings: Settings, server: tuple[str, SilentService]
) -> None:
    with resource_of(settings) as resource:
        with explained():
            assert resource.spark_session
        foreign_session = SparkSession.builder.remote(server[0]).getOrCreate()
    assert SparkSession.getActiveSession() is foreign_session
    foreign_session.client.close()


def test_a_changed_setting_is_restored_in_the_next_step(settings: Settings, server: tuple[str, SilentService]) -> None:
    requests = server[1].questions
    step = type(LakehouseResource.with_settings(settings))(spark_config={"spark.sql.shuffle.partitions": "3"})
    with explained():
        session = step.spark_session
    requests.clear()
    with explained():
        assert step.spark_session is session
    assert [name for name in requests if name != "get"] == ["get_all"], "one request if nothing has changed"
    session.conf.set(ZONE, "Europe/Berlin")
    session.conf.set("spark.databricks.delta.merge.unknown", "true")
    with explained():
        assert step.spark_session.conf.get(ZONE) == "UTC"
        conf = session.conf.getAll
    assert "spark.databricks.delta.merge.unknown" not in conf
    assert conf["spark.sql.shuffle.partitions"] == "3"
    session.client.close()
