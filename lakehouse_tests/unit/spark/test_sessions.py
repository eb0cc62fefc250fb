"""The settings of a session, on a Spark started here or over Spark Connect."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import REDACTION
from lakehouse.spark import sessions


@pytest.mark.parametrize(
    ("master", "are_shipped"),
    [("local[2]", False), ("local", False), ("local-cluster[2,1,1024]", True), ("spark://127.0.0.1:7077", True)],
)
def test_separate_executors_get_the_jars(master: str, are_shipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [Path("delta.jar")])
    conf = sessions.spark_conf(Settings(spark_master=master, _env_file=None))
    assert (conf.get("spark.jars") == "delta.jar") == are_shipped


@pytest.mark.parametrize(
    ("master", "java_options", "is_chosen"),
    [("local[2]", "", True), ("local[2]", "-XX:+UseG1GC", False), ("spark://127.0.0.1:7077", "", False)],
)
def test_a_collector_is_chosen_for_a_local_master_unless_the_environment_names_one(
    master: str, java_options: str, is_chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two collectors, Java does not start."""
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", java_options)
    options = sessions.spark_conf(Settings(spark_master=master, _env_file=None))["spark.driver.extraJavaOptions"]
    assert ("-XX:+UseParallelGC" in options.split()) == is_chosen and options.startswith("-Duser.timezone=UTC")


def test_the_warehouse_folder_is_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    conf = sessions.spark_conf(Settings(home=tmp_path, spark_master="local[2]", _env_file=None))
    assert Path(conf["spark.sql.warehouse.dir"]).parent == tmp_path


@pytest.mark.parametrize("conf", [sessions.spark_conf, sessions.engine_conf])
def test_a_java_without_memory_ends(
    conf: Callable[[Settings], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    options = conf(Settings(spark_master="local[2]", _env_file=None))["spark.driver.extraJavaOptions"].split()
    assert "-XX:+ExitOnOutOfMemoryError" in options and "-XX:-UseGCOverheadLimit" not in options


@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"])
@pytest.mark.parametrize("java_options", ["-Xmx1g -XX:+UseZGC", "@options", "-XX:Flags=.hotspotrc"])
def test_no_collector_is_chosen_if_the_options_may_name_one(
    name: str, java_options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "")
    local = Settings(spark_master="local[2]", _env_file=None)
    monkeypatch.setenv(name, "-XX:+PrintGCDetails")
    assert "UseParallelGC" in sessions.spark_conf(local)["spark.driver.extraJavaOptions"]
    monkeypatch.setenv(name, java_options)
    assert "UseParallelGC" not in sessions.spark_conf(local)["spark.driver.extraJavaOptions"]


def test_no_collector_is_chosen_if_the_file_of_defaults_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "")
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.defaultJavaOptions -XX:+UseG1GC\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = sessions.spark_conf(Settings(spark_master="local[2]", _env_file=None))["spark.driver.extraJavaOptions"]
    assert "UseParallelGC" not in options


@pytest.mark.parametrize("sign", [" ", "=", " : "])
def test_what_the_file_of_defaults_hides_stays_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    (tmp_path / "spark-defaults.conf").write_text(f"{REDACTION}{sign}(?i)credential\nspark.mine.credential x\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = Settings(spark_conf='{"spark.mine": "1"}', _env_file=None)
    pattern = sessions.spark_conf(settings)[REDACTION]
    assert "spark\\.mine" in pattern and pattern.endswith("|(?i)credential")


def test_a_collector_in_the_environment_does_not_change_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    local = Settings(spark_master="local[2]", _env_file=None)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "")
    before = sessions.fingerprint(local)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert sessions.fingerprint(local) == before
