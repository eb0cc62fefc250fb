"""A Spark that somebody else started in the same process, and sessions on it that have one setting wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.other_sessions import WRONG, merge_by_resource, other_session
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.places import ROOT

pytestmark = pytest.mark.invariant(3)

LAST_OF_MONTH = "2023-01-31T23:30"
PROGRAM = """
import sys
from threading import Thread
from pyspark.sql import SparkSession
from lakehouse.settings import Settings
from lakehouse.spark.sessions import spark_conf
from lakehouse_tests.helpers.attacks.other_sessions import WRONG, resource_of

settings = Settings(home=sys.argv[1], spark_master="local[1]", _env_file=None)
theirs = {**WRONG, "spark.sql.legacy.setopsPrecedence.enabled": "true"}
builder = SparkSession.builder
for name, value in {**spark_conf(settings), **theirs}.items():
    builder = builder.config(name, value)
foreign = builder.getOrCreate()

def work():
    with resource_of(settings) as opened:
        ours = opened.spark_session
        wrong = [name for name, value in theirs.items() if ours.conf.get(name, None) == value]
        print(f"wrong: {wrong}, counted: {ours.range(2).count()}")

work()
elsewhere = Thread(target=work)
elsewhere.start()
elsewhere.join()
kept = all(foreign.conf.get(name) == value for name, value in theirs.items())
foreign.conf.set("spark.sql.defaultCatalog", "spark_catalog")  # else they can count nothing
print(f"theirs: {kept}, counted: {foreign.range(3).count()}")
"""


def test_a_spark_of_others_is_worked_on_exactly_and_goes_on_as_it_was(home: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {**os.environ, "LAKEHOUSE_JARS": str(home.jar_folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["wrong: [], counted: 2"] * 2 + ["theirs: True, counted: 3"]


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    made = Stream.create(spark, broker, base=None)
    made.send(record(time=LAST_OF_MONTH, temperature_2m=0.0))
    made.merge()
    return made


@pytest.mark.parametrize("name", WRONG)
def test_a_table_is_the_same_whatever_one_setting_of_another_session(
    stream: Stream, spark: SparkSession, name: str
) -> None:
    ((before,),) = stream.sql("SELECT temperature_2m FROM {t}")
    with other_session(spark, {name: WRONG[name]}):
        merge_by_resource(stream, record(time=LAST_OF_MONTH, temperature_2m=before + 1))
    rows = stream.sql("SELECT observed_month, observed_at, temperature_2m FROM {t}")
    assert [(str(month), str(at), value) for month, at, value in rows] == [
        ("2023-01-01", "2023-01-31 23:30:00", before + 1)
    ]
