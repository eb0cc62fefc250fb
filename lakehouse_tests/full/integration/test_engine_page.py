"""What the page on which Spark shows the work of an engine tells, to whoever is on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.local.engine import engine_folder, read_address
from lakehouse.settings import Settings
from lakehouse_tests.helpers.engines import page, running_engine
from lakehouse_tests.helpers.reliability import Attack

pytestmark = pytest.mark.timeout(600)

_READ = """
import sys
from lakehouse.settings import Settings
from lakehouse.spark import build_session, stop_session
settings = Settings.load()
session = build_session(settings)
limits = {"kafka.request.timeout.ms": "3000", "kafka.default.api.timeout.ms": "4000", "fetchOffset.numRetries": "1"}
secret = {"kafka.sasl.jaas.config": 'x username="app" password="mark3r";', "kafka.gateway.ticket": "mark3r"}
where = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
try:
    session.read.format("kafka").options(**limits, **secret, **where).load().count()
except Exception:
    session.sql("SELECT 'was asked'").collect()
stop_session(session)
"""


def test_spark_s_page_shows_no_secret_of_a_read_or_a_setting(
    tmp_path: Path, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "640m", "HOME": str(tmp_path)}
    given["SPARK_CONF"] = '{"spark.hadoop.store.ticket": "mark3r"}'
    for name, value in given.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    settings = Settings.load()
    with running_engine(settings):
        subprocess.run([sys.executable, "-c", _READ], check=True)
        address = read_address(engine_folder(settings))
        assert address
        (app,) = json.loads(page(f"{address.ui}/api/v1/applications"))
        api = f"api/v1/applications/{app['id']}"
        paths = ("connect/", "environment/", "SQL/", "jobs/", "stages/", f"{api}/environment", f"{api}/sql")
        pages = {path: page(f"{address.ui}/{path}") for path in paths}
    assert "kafka.sasl.jaas.config" in pages["connect/"] and "was asked" in pages["connect/"]
    assert "store.ticket" in pages[f"{api}/environment"]
    with attack("Secrets stay secret", "what Spark's page shows of an engine is searched"):
        assert [path for path, text in pages.items() if "mark3r" in text] == []
