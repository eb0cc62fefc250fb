"""Whatever a secret is written with, none of it is said: not by an error, not by its file, not by what is shown."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from lakehouse.cli import main
from lakehouse.kafka.security import spark_security
from lakehouse.settings import Settings
from lakehouse.settings.remote import parse_remote
from lakehouse.spark.connect import client
from lakehouse_tests.helpers.brokers.sockets import free_address

SECRETS = sorted(name for name, field in Settings.model_fields.items() if "SecretStr" in repr(field.annotation))
MARKS = [
    "=",
    "==",
    "%",
    "%zz",
    "%0A",
    "\n",
    "\r\n",
    "@",
    "#",
    ";",
    "; x",
    '"',
    "'",
    "?",
    "&",
    "\\",
    " ",
    "\x1b[31m",
    "\udcff",
    "é",
    "/",
]
PIECES = ("s3cr", "3tly")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, a folder for the files of errors, and no settings of the machine's own."""
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_") and name != "LAKEHOUSE_DECLARATIONS"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def closing_server() -> Iterator[str]:
    """The address of a server that takes connections and ends them, as one that speaks something else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_each() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        Thread(target=close_each, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with closing_server() as address:
        yield address


def environment(name: str, secret: str, server: str) -> dict[str, str]:
    """Settings in which this secret is used, and the others are there too."""
    kafka = {"KAFKA_BOOTSTRAP_SERVERS": free_address(), "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}
    names = {"KAFKA_USERNAME": "app", "KAFKA_PASSWORD": "word", "REGISTRY_URL": f"http://{server}"}
    if name == "spark_remote":
        secret = f"sc://{server}/;token={secret}"
    elif name == "registry_password":
        names["REGISTRY_USERNAME"] = "reader"
    elif name == "kafka_properties":
        secret = f'{{"client.dns.lookup": "{secret}"}}'
    return {f"LAKEHOUSE_{each}": value for each, value in (kafka | names | {name.upper(): secret}).items()}


def said(nowhere: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed, then what every file holds."""
    captured = capfd.readouterr()
    return [captured.out + captured.err, *(file.read_text() for file in nowhere.rglob("*") if file.is_file())]


@pytest.mark.parametrize("name", SECRETS)
def test_no_piece_of_a_secret_is_said(
    name: str, server: str, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "FIRST_ANSWER", 0.2)
    verb = {"spark_remote": "load-base", "registry_token": "doctor", "registry_password": "doctor"}.get(name, "topics")
    for mark in MARKS:
        for variable, value in environment(name, mark.join(PIECES), server).items():
            monkeypatch.setenv(variable, value)
        assert main.run([verb]) == 1, mark
        texts = said(nowhere, capfd)
        assert [text for text in texts if any(piece in text for piece in PIECES)] == [], mark
        assert not re.search("Traceback|Unexpected", texts[0]), mark


@pytest.mark.parametrize(("mark", "written"), [("=", "%3D"), ("#", "%23"), ("?", "%3F"), (";", "%3B"), ("%zz", "%25")])
def test_what_would_end_a_value_is_refused_with_the_way_to_write_it_and_so_written_it_enters(
    mark: str, written: str
) -> None:
    with pytest.raises(ValueError, match=f"written {written}"):
        parse_remote(f"sc://host/;token=a{mark}b;use_ssl=true")
    told = parse_remote(f"sc://host/;token=a{quote(mark)}b;use_ssl=true")
    assert told == ("host", 15002, {"token": f"a{mark}b", "use_ssl": "true"})


@pytest.mark.parametrize(
    "given",
    [
        *("sc://", "sc://host:0", "sc://host:70000", "sc://me:s3cr@host", "sc://host/s3cr", "sc://host?token=s3cr"),
        *("sc://host/;s3cr3tly", "sc://host/;S3cr=3tly", "sc://host/;s3cr-bin=x", "sc://host/;token="),
        *("sc://host/;use_ssl=s3cr", "sc://host/;session_id=s3cr", "sc://host/;token=s3cr%0A", "sc://host/;token=%ff"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_shown(given: str) -> None:
    with pytest.raises(ValueError, match=".") as refused:
        parse_remote(given)
    assert "s3cr" not in str(refused.value).lower()


def test_a_password_stays_one_value_of_the_options_of_spark_whatever_it_holds() -> None:
    access: dict[str, Any] = {
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_username": "app",
        "kafka_bootstrap_servers": "h:1",
    }
    settings = Settings(**access, kafka_password='a"b\\c;\nd=\t1', _env_file=None)
    given = spark_security(settings)["kafka.sasl.jaas.config"]
    assert given.endswith('required username="app" password="a\\"b\\\\c;\\012d=\\0111";')
