"""Every setting and every option tried wrong once: the exit code, one sentence that names it, nothing half done."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from lakehouse.cli import main
from lakehouse.settings import Settings

COMMANDS: dict[str, Any] = vars(typer.main.get_command(main.app))["commands"]
WRONG_VALUES = {
    "table": "rain",
    "folder": "missing",
    "into": "/",
    "name": "no/topic",
    "new": "No-Table",
    "topic": "no/topic",
    "sample": "missing.jsonl",
    "records": "0",
    "file": "missing.jsonl",
    "generate": "rain",
    "rate": "nan",
    "partitions": "0",
    "max_records": "0",
    "partition": "-1",
    "start": "-1",
    "end": "-1",
    "idle_exit": "nan",
    "services": "cooker",
    "port": "65536",
    "reason": "whim",
    "accept-difference reason": " ",
    "versions": "-1",
    "ranges": "0-5",
    "schema": "missing.avsc",
    "limit": "-1",
    "sql": "DROP TABLE temperatures",
}
CODES = {"sql": 1}  # a question that cannot be answered, and no wrong use
NEEDED = {
    "publish": ["temperatures"],
    "load-base": ["temperatures"],
    "new-table": ["prices"],
    "replay": ["temperatures"],
    "accept-difference": ["--version", "7", "--reason", "known"],
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is not there yet, and no setting of the machine's own."""
    kept = ("LAKEHOUSE_JARS", "LAKEHOUSE_DECLARATIONS")
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_") and name not in kept]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".lakehouse"


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said at the end: one sentence on standard error, and nothing on standard output."""
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "Unexpected" not in said.err
    *before, last = said.err.splitlines()
    assert before in ([], ["Starting Spark ..."])
    return last


def taking_values() -> list[tuple[str, Any]]:
    return [
        (verb, parameter)
        for verb, command in sorted(COMMANDS.items())
        for parameter in command.params
        if not getattr(parameter, "is_flag", False) and parameter.name != "help"
    ]


@pytest.mark.parametrize(("verb", "parameter"), [pytest.param(v, p, id=f"{v}-{p.name}") for v, p in taking_values()])
def test_an_option_with_a_wrong_value_is_named(
    verb: str, parameter: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = WRONG_VALUES.get(f"{verb} {parameter.name}") or WRONG_VALUES[parameter.name]
    option = parameter.opts[:1] if parameter.param_type_name == "option" else []
    needed = NEEDED.get(verb, [])
    before = needed if parameter.name not in ("table", "new") or needed[:1] == ["--version"] else []
    assert main.run([verb, *before, *option, value]) == CODES.get(parameter.name, 2)
    assert (option or [value])[0] in last_line(capsys)
    assert not home.exists()


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_an_option_that_does_not_exist_is_wrong_use(verb: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([verb, "--nonsense"]) == 2
    assert "--nonsense" in last_line(capsys)
    assert main.run([verb, *NEEDED.get(verb, []), "too", "many", "words"]) == 2
    assert re.search("too|many|words", last_line(capsys))
    assert not home.exists()


READ_OTHERWISE = ("file:///a%20b", "file:///a#b", "file:///a\\b", "file:///a\tb", "s3://bucket/a?sig=s3cret")
SERVERS_WITH_SECRETS = ("me:s3cret@host:9092", "s3cret@host:9092", "host:9092?token=s3cret")
WRONG_SETTINGS = {
    "home": (
        "{file}",
        "{file}/below",
        "s3://bucket/home",
        "50%",
        "#1",
        "a?b",
        "a\\b",
        "a,b",
        "a\tb",
        "a\nb",
        "a[1]",
        "a^b",
        "a|b",
        "~nosuch/x",
    ),
    "tables": (
        "{file}",
        "~nosuch/x",
        "50%",
        "a\nb",
        "ftp://host/tables",
        "s3a://me:s3cret@bucket/tables",
        "s3://s3cret@bucket/x",
        *READ_OTHERWISE,
    ),
    "declarations": ("{file}", "not/there", "two words", "dashed-name", "ends.", "~nosuch/x"),
    "kafka_bootstrap_servers": ("localhost", "localhost:0", "localhost:70000", *SERVERS_WITH_SECRETS),
    "kafka_security_protocol": ("TLS",),
    "kafka_sasl_mechanism": ("GSSAPI",),
    "kafka_ca_file": ("missing.pem", ".", "~nosuch/x"),
    "kafka_client_certificate_file": ("missing.pem", "{file}"),
    "kafka_client_key_file": ("missing.pem", "{file}"),
    "kafka_properties": ("s3cret", '{{"acks": "s3cret"}}'),
    "spark_master": (
        "nonsense",
        "local[0]",
        "spark://",
        "localhost:7077",
        "spark://me:s3cret@host:7077",
        "k8s://host?s3cret",
    ),
    "spark_remote": ("localhost:15002", "sc://host:99999", "sc://;token=s3cret"),
    "spark_driver_memory": ("lots", "0g", "1t"),
    "spark_conf": ("s3cret", '{{"spark.sql.session.timeZone": "s3cret"}}', '{{"spark.sql.nonsense": "s3cret"}}'),
    "jars": ("{file}", "{file}/below", "~nosuch/x"),
    "sync": ("sometimes", "2"),
    "registry_url": ("registry:8081", "ftp://host", "http://me:s3cret@host", "http://host?token=s3cret"),
    "registry_ca_file": ("missing.pem", "."),
}
ANY_TEXT = {"kafka_username", "kafka_password", "kafka_client_key_password"}  # tried wrong in test_security.py
ANY_TEXT |= {"registry_username", "registry_password", "registry_token"}  # and in topic/test_registry.py


def test_every_setting_is_tried_wrong() -> None:
    assert {*WRONG_SETTINGS, *ANY_TEXT} == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_SETTINGS.items() for value in values]
)
def test_a_setting_that_cannot_be_used_is_named(
    name: str, value: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", value.format(file=Path("file").absolute()))
    for arguments in (["status"], ["doctor", "--json"], ["publish", "temperatures", "--generate", "stream"]):
        assert main.run(arguments) == 1
        said = last_line(capsys)
        assert f"LAKEHOUSE_{name.upper()}" in said
        assert "s3cret" not in said
        assert "pattern" not in said, "a sentence, and no regular expression"
    assert not home.exists()


def test_the_default_home_is_refused_in_a_working_directory_whose_name_is_misread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a,b", "50%"):
        (tmp_path / name).mkdir()
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(tmp_path / name)
        monkeypatch.chdir(tmp_path / name)
        assert main.run(["status"]) == 1
        assert "LAKEHOUSE_HOME" in last_line(capsys)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LAKEHOUSE_HOME", "link")
        assert main.run(["status"]) == 1
        assert "LAKEHOUSE_HOME" in last_line(capsys)
        monkeypatch.delenv("LAKEHOUSE_HOME")


@pytest.mark.parametrize(
    "arguments",
    [
        ["up"],
        ["demo"],
        ["topics", "--create"],
        ["publish", "temperatures", "--generate", "stream"],
        ["merge"],
        ["follow"],
        ["replay"],
        ["accept-gap"],
        ["recover-progress"],
        ["load-base"],
        ["redrive"],
        ["maintain"],
    ],
    ids=" ".join,
)
def test_a_home_that_cannot_be_written_is_told_by_every_verb_that_writes(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", "/proc/home")  # where nobody can make a folder
    assert main.run(arguments) == 1
    said = last_line(capsys)
    assert said.startswith("The state folder cannot be used")
    assert "LAKEHOUSE_HOME" in said


def test_a_folder_of_dagster_that_cannot_be_used_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    monkeypatch.setenv("DAGSTER_HOME", "file")
    assert main.run(["up", "webserver", "--port", "4999"]) == 1
    assert "DAGSTER_HOME" in last_line(capsys)


def test_servers_that_resolve_nowhere_are_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "broker.invalid:9092")
    for arguments in (["topics"], ["publish", "temperatures", "--generate", "stream"], ["merge", "--dry-run"]):
        assert main.run(arguments) == 1
        said = last_line(capsys)
        assert "broker.invalid:9092" in said
        assert "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS" in said
    assert not home.exists()


def test_a_cache_of_jars_that_cannot_be_made_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_JARS", "/proc/jars")
    for arguments in (["topics"], ["load-base"]):
        assert main.run(arguments) == 1
        assert "LAKEHOUSE_JARS" in last_line(capsys)


def test_a_spark_connect_server_that_is_not_there_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_REMOTE", "sc://127.0.0.1:1/;token=s3cret")
    assert main.run(["load-base"]) == 1
    said = last_line(capsys)
    assert "LAKEHOUSE_SPARK_REMOTE" in said
    assert "s3cret" not in said
    assert not (home / "tables").exists()


def test_a_spark_that_does_not_start_is_told_without_a_trace(home: Path) -> None:
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "load-base"]
    environment = {**os.environ, "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1m", "LAKEHOUSE_SPARK_CONF": '{"spark.x": "s3cret"}'}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    first, last = done.stderr.splitlines()
    assert first == "Starting Spark ..."
    assert last.startswith("Spark does not start")
    assert "LAKEHOUSE_SPARK_DRIVER_MEMORY" in last
    assert not (home / "tables").exists()


@pytest.mark.slow
def test_a_setting_of_spark_that_it_refuses_is_told_without_its_value(home: Path) -> None:
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "load-base"]
    environment = {**os.environ, "LAKEHOUSE_SPARK_CONF": '{"spark.executor.cores": "s3cret"}'}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Spark does not start" in done.stderr
    assert "LAKEHOUSE_SPARK_CONF" in done.stderr
    assert "s3cret" not in done.stderr + done.stdout
