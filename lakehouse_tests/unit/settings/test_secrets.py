"""No part of a secret is shown, with any characters in it: not in errors, not in files, not in output."""

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
from lakehouse.cli.doctor import Part
from lakehouse.kafka.clients import spark_security
from lakehouse.settings import Settings
from lakehouse.settings.shapes import parse_remote
from lakehouse.spark import connect
from lakehouse_tests.helpers.brokers.sockets import free_address

SECRETS = sorted(name for name, field in Settings.model_fields.items() if "SecretStr" in repr(field.annotation))
SEPARATORS = [
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
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, also for the files of errors, and no settings in the environment."""
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_") and name != "LAKEHOUSE_DECLARATIONS"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def closing_server() -> Iterator[str]:
    """The address of a server that accepts connections and closes them, like one with another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_connections() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        Thread(target=close_connections, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with closing_server() as address:
        yield address


def environment(name: str, secret: str, server: str) -> dict[str, str]:
    """Environment variables that use this secret, with the other settings that it needs."""
    kafka = {"KAFKA_BOOTSTRAP_SERVERS": free_address(), "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}
    names = {"KAFKA_USERNAME": "app", "KAFKA_PASSWORD": "word", "REGISTRY_URL": f"http://{server}"}
    if name == "spark_remote":
        secret = f"sc://{server}/;token={secret}"
    elif name == "registry_password":
        names["REGISTRY_USERNAME"] = "reader"
    elif name == "alert_url":
        secret = f"http://{server}/{secret}"
    elif name == "database_url":
        secret = f"postgresql://me:{secret}@127.0.0.1:1/shop"
    elif name == "kafka_properties":
        secret = f'{{"client.dns.lookup": "{secret}"}}'
    return {f"LAKEHOUSE_{variable}": value for variable, value in (kafka | names | {name.upper(): secret}).items()}


def all_texts(folder: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the printed text, then the text of every file."""
    output = capfd.readouterr()
    return [output.out + output.err, *(file.read_text() for file in folder.rglob("*") if file.is_file())]


@pytest.mark.parametrize("name", SECRETS)
def test_no_part_of_a_secret_is_shown(
    name: str, server: str, empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connect, "FIRST_ANSWER", 0.2)
    monkeypatch.setattr("lakehouse.cli.doctor._jars", lambda _: [])  # slow to hash, and without a secret
    monkeypatch.setattr("lakehouse.cli.doctor._java", lambda: Part("Java", "21", "ok"))
    verb = {"spark_remote": "load-base", "registry_token": "doctor", "registry_password": "doctor"}.get(name, "topics")
    for separator in SEPARATORS:
        for variable, value in environment(name, separator.join(PIECES), server).items():
            monkeypatch.setenv(variable, value)
        assert main.run([verb]) == 1, separator
        texts = all_texts(empty_folder, capfd)
        assert [text for text in texts if any(piece in text for piece in PIECES)] == [], separator
        assert not re.search("Traceback|Unexpected", texts[0]), separator


@pytest.mark.parametrize(
    ("character", "code"), [("=", "%3D"), ("#", "%23"), ("?", "%3F"), (";", "%3B"), ("%zz", "%25")]
)
def test_a_character_that_must_be_encoded_is_refused_with_its_code_and_accepted_when_encoded(
    character: str, code: str
) -> None:
    with pytest.raises(ValueError, match=f"written {code}"):
        parse_remote(f"sc://host/;token=a{character}b;use_ssl=true")
    address = parse_remote(f"sc://host/;token=a{quote(character)}b;use_ssl=true")
    assert address == ("host", 15002, {"token": f"a{character}b", "use_ssl": "true"})


@pytest.mark.parametrize(
    "address",
    [
        *("sc://", "sc://host:0", "sc://host:70000", "sc://me:s3cr@host", "sc://host/s3cr", "sc://host?token=s3cr"),
        *("sc://host/;s3cr3tly", "sc://host/;S3cr=3tly", "sc://host/;s3cr-bin=x", "sc://host/;token="),
        *("sc://host/;use_ssl=s3cr", "sc://host/;session_id=s3cr", "sc://host/;token=s3cr%0A", "sc://host/;token=%ff"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ValueError, match=".") as raised:
        parse_remote(address)
    assert "s3cr" not in str(raised.value).lower()


def test_a_password_with_any_characters_stays_one_value_of_spark_options() -> None:
    access: dict[str, Any] = {
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_username": "app",
        "kafka_bootstrap_servers": "h:1",
    }
    settings = Settings(**access, kafka_password='a"b\\c;\nd=\t1', _env_file=None)
    jaas_config = spark_security(settings)["kafka.sasl.jaas.config"]
    assert jaas_config.endswith('required username="app" password="a\\"b\\\\c;\\012d=\\0111";')
