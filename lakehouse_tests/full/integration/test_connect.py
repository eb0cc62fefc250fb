"""The merge tests over Spark Connect: on a server that the fixture starts, and on an engine."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from lakehouse.local.embedded import draw_port
from lakehouse.settings import Settings
from lakehouse.spark.sessions import spark_conf
from lakehouse_tests.conftest import ENGINE, SPARK_REMOTE
from lakehouse_tests.helpers import same_tests
from lakehouse_tests.helpers.waiting import wait_until

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def accepts_connections(port: int, server: subprocess.Popen) -> bool:
    assert server.poll() is None, "the server ended by itself"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def remote_url(home: Settings, tmp_path: Path) -> Iterator[str]:
    """A Spark Connect server on loopback, with the settings of our sessions."""
    port = draw_port()
    conf = {
        **spark_conf(home),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = [argument for name, value in conf.items() for argument in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (tmp_path / "server.log").open("wb") as log:
        command = [str(submit), "--class", SERVER, *options, "spark-internal"]
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            assert wait_until(lambda: accepts_connections(port, server), 60), (tmp_path / "server.log").read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, 15)
            server.wait(30)


@pytest.mark.timeout(600)
def test_the_merge_path_is_the_same_over_spark_connect(remote_url: str) -> None:
    same_tests.require_passed({SPARK_REMOTE: remote_url}, same_tests.CONNECT)


@pytest.mark.timeout(900)
def test_merges_and_crashes_are_the_same_over_the_engine() -> None:
    same_tests.require_passed({ENGINE: "1"}, same_tests.ENGINE)
