"""A Spark that other code started in the same process, and sessions with one wrong setting on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.other_sessions import WRONG_SETTINGS, merge_by_resource, other_session
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.places import ROOT

pytestmark = pytest.mark.invariant("3.5")

LAST_OF_MONTH = "2023-01-31T23:30"
PROGRAM = """
import sys
from threading import Thread
from pyspark.sql import SparkSession
from lakehouse.settings import Settings
from lakehouse.spark.sessions import spark_conf
from lakehouse_tests.helpers.attacks.other_sessions import WRONG_SETTINGS, resource_of

settings = Settings(home=sys.argv[1], spark_master="local[1]", _env_file=None)
foreign_conf = {**WRONG_SETTINGS, "spark.sql.legacy.setopsPrecedence.enabled": "true"}
builder = SparkSession.builder
for name, value in {**spark_conf(settings), **foreign_conf}.items():
    builder = builder.config(name, value)
foreign = builder.getOrCreate()

def count_rows():
    with resource_of(settings) as resource:
        session = resource.spark_session
        wrong_names = [name for name, value in foreign_conf.items() if session.conf.get(name, None) == value]
        print(f"wrong: {wrong_names}, counted: {session.range(2).count()}")

count_rows()
thread = Thread(target=count_rows)
thread.start()
thread.join()
is_unchanged = all(foreign.conf.get(name) == value for name, value in foreign_conf.items())
foreign.conf.set("spark.sql.defaultCatalog", "spark_catalog")  # otherwise the foreign session cannot count
print(f"theirs: {is_unchanged}, counted: {foreign.range(3).count()}")
"""


def test_a_foreign_spark_gives_correct_results_and_keeps_its_settings(home: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {**os.environ, "LAKEHOUSE_JARS": str(home.jar_folder)}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines() == ["wrong: [], counted: 2"] * 2 + ["theirs: True, counted: 3"]


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    new_stream = Stream.create(spark, broker, base=None)
    new_stream.send_and_merge(record(time=LAST_OF_MONTH, temperature_2m=0.0))
    return new_stream


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_a_table_does_not_depend_on_a_setting_of_another_session(
    stream: Stream, spark: SparkSession, name: str
) -> None:
    ((temperature,),) = stream.sql("SELECT temperature_2m FROM {t}")
    with other_session(spark, {name: WRONG_SETTINGS[name]}):
        merge_by_resource(stream, record(time=LAST_OF_MONTH, temperature_2m=temperature + 1))
    rows = stream.sql("SELECT observed_month, observed_at, temperature_2m FROM {t}")
    assert [(str(month), str(time), value) for month, time, value in rows] == [
        ("2023-01-01", "2023-01-31 23:30:00", temperature + 1)
    ]
