"""A session on a Spark Connect server beside those of others: nobody gets it who did not ask for it."""

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
from lakehouse.spark.connect import client, join, join_same_server
from lakehouse.spark.own_session import activate, others_active, running_session, stop
from lakehouse.storage.statement import run_statement
from lakehouse_tests.helpers.attacks.other_sessions import resource_of
from lakehouse_tests.helpers.brokers.silent_connect import Silent, silent_server

MODE, ZONE = "SPARK_CONNECT_MODE_ENABLED", "spark.sql.session.timeZone"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FAREWELL", 0.2)


@pytest.fixture
def server() -> Iterator[tuple[str, Silent]]:
    with silent_server() as started:
        yield started


@pytest.fixture
def settings(server: tuple[str, Silent]) -> Settings:
    return Settings(spark_remote=server[0], _env_file=None)


@pytest.fixture
def theirs(server: tuple[str, Silent], monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session of somebody else, with a name of its own, that is active and the default."""
    monkeypatch.setenv(MODE, "1")
    made = SparkSession.builder.remote(f"{server[0]}/;session_id={uuid4()}").create()
    yield made
    made.client.close()


def test_a_session_of_ours_is_another_one_and_active_only_while_we_work(theirs: SparkSession) -> None:
    assert running_session() is theirs
    with others_active():
        ours = join_same_server(theirs)
        assert ours.client._session_id != theirs.client._session_id
        activate(ours)
        assert SparkSession.getActiveSession() is ours
    assert SparkSession.getActiveSession() is theirs
    assert ConnectSession._get_default_session() is theirs  # type: ignore[comparison-overlap]
    ours.client.close()


def test_a_server_of_this_process_outlives_a_session_of_ours(
    theirs: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    ours = join_same_server(theirs)
    monkeypatch.setattr(ours.client, "release_session", lambda: None)
    stop(ours)
    assert ours.client.is_closed
    assert "SPARK_LOCAL_REMOTE" in os.environ, "PySpark takes it away when it stops the server"
    assert SparkSession.getActiveSession() is theirs


def test_a_server_of_others_that_is_silent_is_an_error(
    theirs: SparkSession, server: tuple[str, Silent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_ANSWER", 0.5)
    server[1].silent.set()
    with pytest.raises(SetupError, match="does not answer as a Spark Connect server.*the session that this process"):
        join_same_server(theirs)


def test_others_get_no_session_of_ours_from_the_builder(settings: Settings, server: tuple[str, Silent]) -> None:
    with resource_of(settings) as opened:
        with explained():
            ours = opened.spark_session
        theirs = SparkSession.builder.remote(server[0]).config(ZONE, "Europe/Berlin").getOrCreate()
        assert theirs is not ours
        assert (theirs.conf.get(ZONE), ours.conf.get(ZONE)) == ("Europe/Berlin", "UTC")
        theirs.client.close()
        assert not ours.client.is_closed


def test_a_session_whose_server_gave_no_answer_is_neither_active_nor_the_default(
    settings: Settings, server: tuple[str, Silent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_ANSWER", 0.5)
    server[1].silent.set()
    with pytest.raises(SetupError):
        join(settings, {ZONE: "UTC"})
    assert ConnectSession._default_session is None
    assert ConnectSession._active_session.session is None
    assert MODE not in os.environ


def test_after_a_step_over_a_server_pyspark_starts_a_spark_of_ones_own_again(settings: Settings) -> None:
    with resource_of(settings) as opened:
        for _ in range(2):
            with explained():
                assert SparkSession.getActiveSession() is None
                assert opened.spark_session is SparkSession.getActiveSession()
                assert MODE in os.environ
            assert MODE not in os.environ
    assert MODE not in os.environ


def test_what_pyspark_looks_up_in_a_statement_that_writes_is_the_session_that_writes(
    settings: Settings, theirs: SparkSession, tmp_path: Path
) -> None:
    found: list[SparkSession] = []
    with others_active():
        ours = join(settings, {ZONE: "UTC"})
        activate(ours)
        run_statement(ours, str(tmp_path / "table"), lambda: found.append(SparkSession.active()))
    assert found == [ours]
    ours.client.close()


def test_a_run_that_ends_takes_no_session_from_others(settings: Settings, server: tuple[str, Silent]) -> None:
    with resource_of(settings) as opened:
        with explained():
            assert opened.spark_session
        theirs = SparkSession.builder.remote(server[0]).getOrCreate()
    assert SparkSession.getActiveSession() is theirs
    theirs.client.close()


def test_a_setting_that_somebody_changed_is_ours_again_in_the_next_step(
    settings: Settings, server: tuple[str, Silent]
) -> None:
    asked = server[1].questions
    step = type(LakehouseResource.with_settings(settings))(spark_config={"spark.sql.shuffle.partitions": "3"})
    with explained():
        session = step.spark_session
    asked.clear()
    with explained():
        assert step.spark_session is session
    assert [each for each in asked if each != "get"] == ["get_all"], "where nothing changed it is one question"
    session.conf.set(ZONE, "Europe/Berlin")
    session.conf.set("spark.databricks.delta.merge.unknown", "true")
    with explained():
        assert step.spark_session.conf.get(ZONE) == "UTC"
        stand = session.conf.getAll
    assert "spark.databricks.delta.merge.unknown" not in stand
    assert stand["spark.sql.shuffle.partitions"] == "3"
    session.client.close()
