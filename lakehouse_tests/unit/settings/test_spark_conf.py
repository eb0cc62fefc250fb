"""Other settings of Spark: those on which rows depend are refused with the reason, and no value is shown."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import SettingsError
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import DELTA, EXACT, REDACTION, hidden_text, is_of_rows
from lakehouse.spark import sessions

FREE = {"spark.sql.shuffle.partitions": 8, "spark.ui.enabled": True, "spark.hadoop.fs.s3a.secret.key": "s3cret"}
GIVEN = {"spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "true", "spark.hadoop.fs.s3a.secret.key": "s3cret"}
WRONG = [
    ("spark.sql.shuffle.partitions=8", "not a JSON object"),
    ('{"spark.ui.port": "s3cret", "spark.ui.port": "s3cret"}', "spark.ui.port stands there more than once"),
    ('{"ui.port": "s3cret"}', "'ui.port' is no name of a Spark setting"),
    ('{"spark.ui port": "s3cret"}', "is no name of a Spark setting"),
    ('{"spark.ui.port": null}', "the value of spark.ui.port has to be text, a number, true or false"),
    ('{"spark.master": "s3cret"}', "use LAKEHOUSE_SPARK_MASTER"),
    ('{"spark.driver.memory": "s3cret"}', "use LAKEHOUSE_SPARK_DRIVER_MEMORY"),
    ('{"spark.remote": "s3cret"}', "use LAKEHOUSE_SPARK_REMOTE"),
    ('{"spark.sql.redaction.string.regex": "s3cret"}', "use spark.redaction.string.regex"),
    ('{"spark.connect.grpc.binding.port": "s3cret"}', "how a session is reached depends on it"),
    ('{"spark.sql.session.timeZone": "s3cret"}', "is fixed, since what a time means depends on it"),
    ('{"spark.sql.ansi.enabled": "s3cret"}', "is fixed, since what is stored of a value depends on it"),
    ('{"spark.sql.caseSensitive": "s3cret"}', "is fixed, since what a statement means depends on it"),
    ('{"spark.sql.files.ignoreMissingFiles": "s3cret"}', "is fixed, since which rows a table holds depends on it"),
    ('{"spark.sql.extensions": "s3cret"}', "is fixed, since tables are Delta's"),
    ('{"spark.sql.legacy.charVarcharAsString": "s3cret"}', "is fixed, since rows may depend on it"),
    ('{"spark.databricks.delta.properties.defaults.appendOnly": "s3cret"}', "is fixed, since rows may depend on it"),
]


@pytest.fixture(autouse=True)
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [Path("delta.jar")])
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "")


def with_conf(**given: object) -> Settings:
    return Settings(spark_conf=given, spark_master="local[2]", _env_file=None)


@pytest.mark.parametrize(("conf", "said"), WRONG)
def test_what_cannot_be_used_is_named_and_its_value_is_not(
    monkeypatch: pytest.MonkeyPatch, conf: str, said: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", conf)
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    assert said in str(refused.value) and "LAKEHOUSE_SPARK_CONF" in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.invariant(3)
@pytest.mark.parametrize("name", [*EXACT, *DELTA])
def test_a_setting_on_which_rows_depend_is_refused_wherever_it_can_be_said(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} is fixed, since .* leave it out"):
        with_conf(**{name: "anything"})
    with pytest.raises(ValidationError, match=f"{name} is fixed, since .* leave it out"):
        LakehouseResource(spark_config={name: "anything"})


def test_any_other_is_written_as_spark_writes_it_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", json.dumps(FREE))
    settings = Settings.load()
    assert settings.spark_settings == GIVEN
    assert "s3cret" not in repr(settings)


def test_command_line_and_engine_have_what_was_given_and_another_value_is_another_engine() -> None:
    settings = with_conf(**FREE)
    for conf in (sessions.spark_conf(settings), sessions.engine_conf(settings)):
        assert conf["spark.sql.shuffle.partitions"] == "8"
        assert conf["spark.hadoop.fs.s3a.secret.key"] == "s3cret"
        assert conf.items() >= {**EXACT, **DELTA}.items()
    told = {sessions.fingerprint(each) for each in (with_conf(), settings, with_conf(**FREE, **{"spark.ui.port": 1}))}
    assert len(told) == 3


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]", "spark://host:7077"])
def test_a_spark_of_a_command_s_own_has_no_page_whatever_is_given(master: str) -> None:
    for given in ({}, FREE):
        settings = Settings(spark_conf=given, spark_master=master, _env_file=None)
        assert sessions.spark_conf(settings)["spark.ui.enabled"] == "false"


def test_options_and_jars_of_a_person_stand_beside_those_that_are_needed() -> None:
    options, jars = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
    conf = sessions.spark_conf(with_conf(**{options: "-XX:+UseG1GC -Duser.timezone=Asia/Tokyo", jars: "/mine.jar"}))
    ours = "-Duser.timezone=UTC -XX:+ExitOnOutOfMemoryError"
    assert conf[options] == f"-XX:+UseG1GC -Duser.timezone=Asia/Tokyo {ours}"
    assert conf[jars] == "/mine.jar:delta.jar"


def test_spark_shows_no_value_that_was_given() -> None:
    given = {"spark.x-y.ticket": 1, "spark.hadoop.store.ticket": 1, REDACTION: "mine"}
    hidden = sessions.spark_conf(with_conf(**given))[REDACTION]
    for name in ("spark.x-y.ticket", "mine", "fs.SECRET.key", "spark.hadoop.store.ticket", "store.ticket"):
        assert re.search(hidden, name)
    for name in ("spark.xxy.ticket", "restore.ticket", "store.tickets"):
        assert not re.search(hidden, name)
    assert REDACTION not in sessions.spark_conf(with_conf())


@pytest.mark.parametrize(
    ("name", "value", "shown_as"),
    [
        ("spark.hadoop.ticket", "1", "ticket"),
        ("spark.hive.store.ticket", "1", "hive.store.ticket"),
        ("spark.metrics.conf.*.sink.x.ticket", "1", "sink.x.ticket"),
        ("spark.driver.extraJavaOptions", "-Xss4m -Dstore.ticket=1 -Da=b", "store.ticket"),
        ("spark.executor.extraJavaOptions", "'-Dstore.ticket=1 2'", "store.ticket"),
        ("spark.driver.defaultJavaOptions", '-D"store.ticket"=1', "store.ticket"),
    ],
)
def test_spark_shows_no_value_under_the_name_by_which_it_hands_it_on(name: str, value: str, shown_as: str) -> None:
    hidden = sessions.spark_conf(with_conf(**{name: value}))[REDACTION]
    assert re.search(hidden, shown_as)
    assert not re.search(hidden, f"a{shown_as}") and not re.search(hidden, f"{shown_as}.a")


@pytest.mark.parametrize("given", ["(?x)ticket [0-9]+", r"\Qticket"])
def test_a_pattern_that_reaches_to_the_end_switches_off_nothing_that_is_hidden(given: str) -> None:
    assert hidden_text(given) == f"{hidden_text(None)}|{given}"
    conf = sessions.spark_conf(with_conf(**{"spark.hadoop.store.ticket": 1, REDACTION: given}))
    assert conf[REDACTION].endswith(f"|{given}") and "^store\\.ticket$" in conf[REDACTION]


def test_no_option_of_a_read_is_shown_in_a_statement() -> None:
    read = r'options { key: "kafka.sasl.jaas.config" value: "x username=\"app\" password=\"s3cret\";" }'
    left = re.sub(hidden_text(None), "...", f"{read} {read}")
    assert left == " ".join(2 * ['options { key: "kafka.sasl.jaas.config" ... }'])
    assert re.sub(hidden_text("ticket [0-9]+"), "...", f"ticket 12 {read}") == f"... {left.partition(' options')[0]}"


def test_what_only_the_start_of_a_spark_can_set_is_refused_where_a_server_is_joined() -> None:
    there: dict[str, Any] = {"spark_remote": "sc://127.0.0.1:1", "_env_file": None}
    with pytest.raises(ValidationError, match="spark.executor.memory .* set it there"):
        Settings(spark_conf={"spark.executor.memory": "4g"}, **there)
    assert Settings(spark_conf={"spark.sql.shuffle.partitions": 8}, **there).spark_settings


def test_what_is_not_known_to_leave_rows_as_they_are_is_of_rows() -> None:
    assert is_of_rows("spark.sql.legacy.anything") and is_of_rows("spark.databricks.delta.anything")
    assert not is_of_rows("spark.sql.adaptive.enabled") and is_of_rows("spark.sql.adaptive.optimizer.excludedRules")
    assert not is_of_rows("spark.executor.memory")


def test_nothing_that_a_spark_is_started_with_is_taken_back_in_a_session_on_it() -> None:
    started = sessions.engine_conf(with_conf(**FREE))
    assert [name for name in started if is_of_rows(name) and name not in {**DELTA, **sessions._OF_SESSIONS}] == []
