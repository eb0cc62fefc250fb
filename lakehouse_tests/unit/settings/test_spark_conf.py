"""Other Spark settings: those that rows depend on are refused with the reason, and no value is shown."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import SettingsError
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import DELTA, EXACT, REDACTION, affects_rows, text_redaction_pattern
from lakehouse.spark import sessions

CONF = {"spark.sql.shuffle.partitions": 8, "spark.ui.enabled": True, "spark.hadoop.fs.s3a.secret.key": "s3cret"}
TEXT_CONF = {
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "true",
    "spark.hadoop.fs.s3a.secret.key": "s3cret",
}
WRONG_CONF = [
    ("spark.sql.shuffle.partitions=8", "not a JSON object"),
    ('{"spark.ui.port": "s3cret", "spark.ui.port": "s3cret"}', "spark.ui.port is listed more than once"),
    ('{"ui.port": "s3cret"}', "'ui.port' is not the name of a Spark setting"),
    ('{"spark.ui port": "s3cret"}', "is not the name of a Spark setting"),
    ('{"spark.ui.port": null}', "the value of spark.ui.port must be text, a number, true or false"),
    ('{"spark.master": "s3cret"}', "use LAKEHOUSE_SPARK_MASTER"),
    ('{"spark.driver.memory": "s3cret"}', "use LAKEHOUSE_SPARK_DRIVER_MEMORY"),
    ('{"spark.remote": "s3cret"}', "use LAKEHOUSE_SPARK_REMOTE"),
    ('{"spark.sql.redaction.string.regex": "s3cret"}', "use spark.redaction.string.regex"),
    ('{"spark.connect.grpc.binding.port": "s3cret"}', "the connection to a session depends on it"),
    ('{"spark.sql.session.timeZone": "s3cret"}', "is fixed, since the meaning of a time depends on it"),
    ('{"spark.sql.ansi.enabled": "s3cret"}', "is fixed, since stored values depend on it"),
    ('{"spark.sql.caseSensitive": "s3cret"}', "is fixed, since the meaning of a statement depends on it"),
    ('{"spark.sql.files.ignoreMissingFiles": "s3cret"}', "is fixed, since the rows of a table depend on it"),
    ('{"spark.sql.extensions": "s3cret"}', "is fixed, since the tables are Delta tables"),
    ('{"spark.sql.legacy.charVarcharAsString": "s3cret"}', "is fixed, since rows may depend on it"),
    ('{"spark.databricks.delta.properties.defaults.appendOnly": "s3cret"}', "is fixed, since rows may depend on it"),
]


@pytest.fixture(autouse=True)
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [Path("delta.jar")])
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "")


def with_conf(**conf: object) -> Settings:
    return Settings(spark_conf=conf, spark_master="local[2]", _env_file=None)


@pytest.mark.parametrize(("conf", "message"), WRONG_CONF)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, conf: str, message: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", conf)
    with pytest.raises(SettingsError) as raised:
        Settings.load()
    assert message in str(raised.value) and "LAKEHOUSE_SPARK_CONF" in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.invariant("3.5")
@pytest.mark.parametrize("name", [*EXACT, *DELTA])
def test_a_setting_that_rows_depend_on_is_refused_in_every_place(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} is fixed, since .* remove it"):
        with_conf(**{name: "anything"})
    with pytest.raises(ValidationError, match=f"{name} is fixed, since .* remove it"):
        LakehouseResource(spark_config={name: "anything"})


def test_other_settings_become_text_as_spark_expects_and_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", json.dumps(CONF))
    settings = Settings.load()
    assert settings.spark_settings == TEXT_CONF
    assert "s3cret" not in repr(settings)


@pytest.mark.invariant("3.5")
def test_commands_and_the_engine_get_the_settings_and_another_value_needs_another_engine() -> None:
    settings = with_conf(**CONF)
    for conf in (sessions.spark_conf(settings), sessions.engine_conf(settings)):
        assert conf["spark.sql.shuffle.partitions"] == "8"
        assert conf["spark.hadoop.fs.s3a.secret.key"] == "s3cret"
        assert conf.items() >= {**EXACT, **DELTA}.items()
    variants = (with_conf(), settings, with_conf(**CONF, **{"spark.ui.port": 1}))
    assert len({sessions.fingerprint(variant) for variant in variants}) == 3


@pytest.mark.invariant("1.14")
def test_no_session_compacts_within_a_batch() -> None:
    for conf in (sessions.spark_conf(with_conf()), sessions.engine_conf(with_conf())):
        assert conf["spark.databricks.delta.autoCompact.enabled"] == "false"


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]", "spark://host:7077"])
def test_the_spark_of_a_command_never_has_a_ui(master: str) -> None:
    for conf in ({}, CONF):
        settings = Settings(spark_conf=conf, spark_master=master, _env_file=None)
        assert sessions.spark_conf(settings)["spark.ui.enabled"] == "false"


def test_options_and_jars_of_the_user_are_joined_with_the_required_ones() -> None:
    options, jars = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
    conf = sessions.spark_conf(with_conf(**{options: "-XX:+UseG1GC -Duser.timezone=Asia/Tokyo", jars: "/mine.jar"}))
    required_options = "-Duser.timezone=UTC -XX:+ExitOnOutOfMemoryError"
    assert conf[options] == f"-XX:+UseG1GC -Duser.timezone=Asia/Tokyo {required_options}"
    assert conf[jars] == "/mine.jar:delta.jar"


def test_spark_shows_no_value_of_the_settings() -> None:
    conf = {"spark.x-y.ticket": 1, "spark.hadoop.store.ticket": 1, REDACTION: "mine"}
    pattern = sessions.spark_conf(with_conf(**conf))[REDACTION]
    for name in ("spark.x-y.ticket", "mine", "fs.SECRET.key", "spark.hadoop.store.ticket", "store.ticket"):
        assert re.search(pattern, name)
    for name in ("spark.xxy.ticket", "restore.ticket", "store.tickets"):
        assert not re.search(pattern, name)
    assert REDACTION not in sessions.spark_conf(with_conf())


@pytest.mark.parametrize(
    ("name", "value", "shown_name"),
    [
        ("spark.hadoop.ticket", "1", "ticket"),
        ("spark.hive.store.ticket", "1", "hive.store.ticket"),
        ("spark.metrics.conf.*.sink.x.ticket", "1", "sink.x.ticket"),
        ("spark.driver.extraJavaOptions", "-Xss4m -Dstore.ticket=1 -Da=b", "store.ticket"),
        ("spark.executor.extraJavaOptions", "'-Dstore.ticket=1 2'", "store.ticket"),
        ("spark.driver.defaultJavaOptions", '-D"store.ticket"=1', "store.ticket"),
    ],
)
def test_spark_shows_no_value_under_a_shorter_name(name: str, value: str, shown_name: str) -> None:
    pattern = sessions.spark_conf(with_conf(**{name: value}))[REDACTION]
    assert re.search(pattern, shown_name)
    assert not re.search(pattern, f"a{shown_name}") and not re.search(pattern, f"{shown_name}.a")


@pytest.mark.parametrize("pattern", ["(?x)ticket [0-9]+", r"\Qticket"])
def test_a_pattern_of_the_user_that_extends_to_the_end_disables_no_other_pattern(pattern: str) -> None:
    assert text_redaction_pattern(pattern) == f"{text_redaction_pattern(None)}|{pattern}"
    conf = sessions.spark_conf(with_conf(**{"spark.hadoop.store.ticket": 1, REDACTION: pattern}))
    assert conf[REDACTION].endswith(f"|{pattern}") and "^store\\.ticket$" in conf[REDACTION]


def test_no_option_of_a_read_is_shown_in_a_statement() -> None:
    read = r'options { key: "kafka.sasl.jaas.config" value: "x username=\"app\" password=\"s3cret\";" }'
    redacted_text = re.sub(text_redaction_pattern(None), "...", f"{read} {read}")
    assert redacted_text == " ".join(2 * ['options { key: "kafka.sasl.jaas.config" ... }'])
    pattern = text_redaction_pattern("ticket [0-9]+")
    assert re.sub(pattern, "...", f"ticket 12 {read}") == f"... {redacted_text.partition(' options')[0]}"


def test_settings_for_the_start_of_spark_are_refused_with_a_spark_connect_server() -> None:
    remote: dict[str, Any] = {"spark_remote": "sc://127.0.0.1:1", "_env_file": None}
    with pytest.raises(ValidationError, match="spark.executor.memory .* set it there"):
        Settings(spark_conf={"spark.executor.memory": "4g"}, **remote)
    assert Settings(spark_conf={"spark.sql.shuffle.partitions": 8}, **remote).spark_settings


def test_rows_may_depend_on_every_setting_that_is_not_known_to_be_harmless() -> None:
    assert affects_rows("spark.sql.legacy.anything") and affects_rows("spark.databricks.delta.anything")
    assert not affects_rows("spark.sql.adaptive.enabled") and affects_rows("spark.sql.adaptive.optimizer.excludedRules")
    assert not affects_rows("spark.executor.memory")


def test_a_session_unsets_no_setting_that_its_spark_was_started_with() -> None:
    conf = sessions.engine_conf(with_conf(**CONF))
    assert [name for name in conf if affects_rows(name) and name not in {**DELTA, **sessions._SESSION_CONF}] == []
