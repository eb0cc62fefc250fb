"""A session on a Spark Connect server beside those of others: nobody gets it who did not ask for it."""

import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.local.own_session import activate, new_client, new_session, others_active, running_session, stop

NOBODY = "sc://127.0.0.1:1"  # a client asks nothing before it has to


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session of somebody else, with a name of its own, that is active and the default."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    made = new_client(f"{NOBODY}/;session_id={uuid4()}")
    ConnectSession._set_default_and_active_session(made)  # type: ignore[arg-type]
    yield made
    ConnectSession._default_session = ConnectSession._active_session.session = None
    made.client.close()


def test_a_session_of_ours_is_another_one_and_active_only_while_we_work(theirs: SparkSession) -> None:
    assert running_session() is theirs
    with others_active():
        ours = new_session(theirs)
        assert ours.client._session_id != theirs.client._session_id
        activate(ours)
        assert SparkSession.getActiveSession() is ours
    assert SparkSession.getActiveSession() is theirs
    default: Any = ConnectSession._get_default_session()
    assert default is theirs
    ours.client.close()


def test_a_server_of_this_process_outlives_a_session_of_ours(
    theirs: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    ours = new_session(theirs)
    ours.client.set_retry_policies([])
    stop(ours)
    assert ours.client.is_closed
    assert "SPARK_LOCAL_REMOTE" in os.environ, "PySpark takes it away when it stops the server"
    assert SparkSession.getActiveSession() is theirs
