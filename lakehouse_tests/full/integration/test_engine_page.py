"""What Spark's page of an engine shows to every user of this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.settings import Settings
from lakehouse.spark.engine import Address, engine_folder, read_address
from lakehouse_tests.helpers.attacks.reliability import Attack
from lakehouse_tests.helpers.engines import page, running_engine
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

_CONF = {
    "spark.hadoop.store.ticket": "mark3r",
    "spark.hive.store.ticket": "mark3r",
    "spark.driver.extraJavaOptions": "-Djava.ticket=mark3r",
    "spark.redaction.string.regex": "(?x)nothing",
}
_READ_PROGRAM = """
import sys
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session
session = build_session(Settings.load())
limits = {"kafka.request.timeout.ms": "3000", "kafka.default.api.timeout.ms": "4000", "fetchOffset.numRetries": "1"}
secret = {"kafka.sasl.jaas.config": 'x username="app" password="mark3r";', "kafka.gateway.ticket": "mark3r"}
topic = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
session.read.options(ticket="mark3r").csv(sys.argv[1]).collect()
try:
    session.read.format("kafka").options(**limits, **secret, **topic).load().count()
except Exception:
    session.sql("SELECT 'was asked theirs-1'").collect()
stop_session(session)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home, and next to it a folder of Spark's settings, which override those of the environment."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.redaction.string.regex theirs-[0-9]\n")
    (tmp_path / "conf" / "spark-env.sh").write_text("SPARK_PUBLIC_DNS=public.example\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    variables = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "640m", "HOME": str(tmp_path / "home")}
    for name, value in {**variables, "SPARK_CONF": json.dumps(_CONF)}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    return Settings.load()


def test_spark_s_page_shows_no_secret_of_a_read_or_a_setting(home: Settings, tmp_path: Path, attack: Attack) -> None:
    (tmp_path / "rows.csv").write_text("1,2\n")
    with running_engine(home):
        subprocess.run([sys.executable, "-c", _READ_PROGRAM, str(tmp_path / "rows.csv")], check=True)
        address = address_of(home)
        assert address.ui.startswith("http://127.0.0.1:"), "the address is not the public name of the machine"
        (app,) = json.loads(page(f"{address.ui}/api/v1/applications"))
        api = f"api/v1/applications/{app['id']}"
        query_pages = [f"SQL/execution/?id={run['id']}" for run in json.loads(page(f"{address.ui}/{api}/sql"))]
        expected_texts = {
            "connect/": ("ticket", "rows.csv", "kafka.sasl.jaas.config", "was asked"),
            "stages/": ("ticket", "rows.csv"),
            "jobs/": ("Spark Connect - session_id",),
            f"{api}/stages": ("ticket", "rows.csv"),
            f"{api}/jobs": ("Spark Connect - session_id",),
            f"{api}/sql": ("Scan csv", "rows.csv"),
            f"{api}/sql/sqlTable?start=0&length=100": ("Spark Connect - session_id",),
            f"{api}/environment": ("spark.hadoop.store.ticket", '"hive.store.ticket"', '"java.ticket"'),
            **dict.fromkeys(query_pages, ("Details for Query",)),
        }
        pages = {path: page(f"{address.ui}/{path}") for path in expected_texts}
        heap_histogram = page(f"{address.ui}/executors/heapHistogram/?executorId=driver")
    assert [(path, text) for path, texts in expected_texts.items() for text in texts if text not in pages[path]] == []
    assert any("Scan csv" in pages[path] and "rows.csv" in pages[path] for path in query_pages)
    assert "java.lang.String" not in heap_histogram, "the page of the heap is disabled: it would collect garbage"
    with attack("Secrets stay secret", "what Spark's page shows of an engine is searched"):
        assert [path for path, text in pages.items() if "mark3r" in text] == []
        assert "theirs-" not in pages["connect/"], "the redaction of spark-defaults.conf applies to statements"


def test_an_engine_that_spark_s_environment_opens_to_the_network_has_no_page(home: Settings, tmp_path: Path) -> None:
    (tmp_path / "conf" / "spark-env.sh").write_text("export SPARK_LOCAL_IP=0.0.0.0\n")
    with running_engine(home):
        assert "spark-env.sh sets SPARK_LOCAL_IP" in address_of(home).ui


def test_an_engine_does_not_start_with_an_invalid_redaction_pattern(home: Settings, tmp_path: Path) -> None:
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.redaction.string.regex theirs-(\n")
    with running_engine(home) as engine:
        assert wait_until(lambda: engine.exit_code is not None, 120)
        assert "Spark does not start: " in engine.log.read_text()


def address_of(home: Settings) -> Address:
    """Wait until the engine of this home listens; return its address."""
    assert wait_until(lambda: read_address(engine_folder(home)) is not None, 120)
    address = read_address(engine_folder(home))
    assert address
    return address
