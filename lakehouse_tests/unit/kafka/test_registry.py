"""Answers of a schema registry: a schema, a missing schema, or an error with its cause."""

import json
import socket
import threading
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Avro
from lakehouse.decoding.formats.avro_reader import reader_of
from lakehouse.decoding.formats.avro_schemas import fingerprint, writer_schema
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.errors import RegistryError, SettingsError
from lakehouse.kafka import registry_client
from lakehouse.kafka.registry_client import Registry, writer_schema_of
from lakehouse.local.registry import running_registry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import Answer, answering_registry, schema_answer

RECORD = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'


def settings_of(url: str, **variables: Any) -> Settings:
    return Settings(registry_url=url, **variables)


def test_an_id_has_a_schema_with_full_names_or_none() -> None:
    missing_answer = 404, '{"error_code": 40403, "message": "Schema 8 not found"}'
    with answering_registry({"/schemas/ids/7": schema_answer(RECORD), "/schemas/ids/8": missing_answer}) as (url, _):
        registry = Registry(settings_of(f"{url}/"))
        assert registry.schema(7) == RegisteredSchema(RECORD, (), "AVRO")
        assert writer_schema_of(registry, 7, Avro()) == writer_schema(RECORD)
        assert registry.schema(8) is None


def test_a_schema_comes_with_the_schemas_that_it_refers_to() -> None:
    inner = {"type": "record", "name": "Inner", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    middle = {"type": "record", "name": "Middle", "namespace": "n", "fields": [{"name": "i", "type": "Inner"}]}
    fields = [{"name": "m", "type": "n.Middle"}, {"name": "i", "type": "n.Inner"}]
    outer = {"type": "record", "name": "O", "fields": fields}
    to_inner = {"name": "n.Inner", "subject": "in/ner", "version": 1}
    to_middle = {"name": "n.Middle", "subject": "middle", "version": 3}
    answers = {
        "/schemas/ids/1": schema_answer(outer, references=[to_middle, to_inner]),
        "/subjects/middle/versions/3": schema_answer(middle, references=[to_inner]),
        "/subjects/in%2Fner/versions/1": schema_answer(inner),
    }
    with answering_registry(answers) as (url, requests):
        schema = writer_schema_of(Registry(settings_of(url)), 1, Avro())
    assert schema
    assert [json.loads(text)["name"] for text in schema.references] == ["n.Inner", "n.Middle"]
    paths = ["/subjects/middle/versions/3?deleted=true", "/subjects/in%2Fner/versions/1?deleted=true"]
    assert [request.path for request in requests[1:]] == paths


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (schema_answer(RECORD, schemaType="PROTOBUF"), "^it is a schema of PROTOBUF, not of Avro$"),
        (schema_answer("{"), "not an Avro schema"),
        (schema_answer('{"type": "record"}'), "not an Avro schema"),
        (schema_answer('"string"'), "not a record"),
        (
            schema_answer({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Gone"}]}),
            "not an Avro schema",
        ),
        (schema_answer(RECORD, references=[{"name": "G", "subject": "gone", "version": 1}]), "version 1 of gone"),
        (schema_answer("[" * 100_000), "not an Avro schema"),
        (
            schema_answer({"type": "record", "name": "R", "fields": [{"name": "a", "type": {"default": 1}}]}),
            "not an Avro schema",
        ),
    ],
)
def test_a_schema_that_is_not_of_avro_cannot_be_used(answer: Answer, reason: str) -> None:
    gone_answers = {"/subjects/gone/versions/1": (404, '{"error_code": 40401, "message": "no subject"}')}
    with (
        answering_registry({"/schemas/ids/1": answer, **gone_answers}) as (url, _),
        pytest.raises(UnusableSchemaError, match=reason),
    ):
        writer_schema_of(Registry(settings_of(url)), 1, Avro())


@pytest.mark.parametrize(("kind", "references"), [("PROTOBUF", ("inner",)), ("AVRO", ()), ("JSON", ()), (None, ())])
def test_only_a_format_of_its_kind_requests_the_references_of_a_schema(kind, references) -> None:
    answer = schema_answer("outer", schemaType="PROTOBUF", references=[{"name": "I", "subject": "inner", "version": 1}])
    with answering_registry({"/schemas/ids/1": answer, "/subjects/inner/versions/1": schema_answer("inner")}) as (
        url,
        requests,
    ):
        assert Registry(settings_of(url)).schema(1, kind) == RegisteredSchema("outer", references, "PROTOBUF")
    assert len(requests) == 1 + len(references)


def test_a_schema_is_normalized_before_it_is_kept() -> None:
    formatted_text = json.dumps(json.loads(RECORD) | {"doc": "Words."}, indent=2)
    with answering_registry({"/schemas/ids/1": schema_answer(formatted_text)}) as (url, _):
        schema = writer_schema_of(Registry(settings_of(url)), 1, Avro())
    assert schema == WriterSchema(schema.text, schema.references, "AVRO")
    assert schema.text != formatted_text and json.loads(schema.text)["doc"] == "Words."


def test_schemas_that_refer_to_each_other_are_an_error() -> None:
    to_a, to_b = ({"name": name, "subject": name, "version": 1} for name in "ab")
    answers = {
        "/schemas/ids/1": schema_answer(RECORD, references=[to_a]),
        "/subjects/a/versions/1": schema_answer(RECORD, references=[to_b]),
        "/subjects/b/versions/1": schema_answer(RECORD, references=[to_a]),
    }
    with answering_registry(answers) as (url, _), pytest.raises(UnusableSchemaError, match="refers to itself"):
        Registry(settings_of(url)).schema(1)


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ((404, "<html>not here</html>"), "is not a schema registry"),
        ((200, "<html>welcome</html>"), "is not a schema registry"),
        ((200, "[]"), "is not a schema registry"),
        ((200, "{}"), "is not a schema registry"),
        ((200, '{"schema": 5}'), "is not a schema registry"),
        ((200, '{"schema": "{}", "references": ["x"]}'), "is not a schema registry"),
        ((200, '{"schema": "{}", "references": 1}'), "is not a schema registry"),
        ((401, '{"error_code": 401, "message": "who are you"}'), "refuses schemas/ids/1, with 401: who are you"),
        ((403, "Forbidden"), "refuses schemas/ids/1, with 403"),
        ((403, '{"error_code": 40403, "message": "not for you"}'), "refuses schemas/ids/1, with 403: not for you"),
        ((500, '{"error_code": 50001, "message": "storage"}'), "answers with 500"),
        ((503, "later"), "answers with 503"),
        ((422, '{"error_code": 42201, "message": "no"}'), "answers with 422 to schemas/ids/1: no"),
    ],
)
def test_every_other_answer_is_an_error_and_not_a_missing_schema(answer: Answer, fact: str) -> None:
    with answering_registry({"/schemas/ids/1": answer}) as (url, _), pytest.raises(RegistryError, match=fact) as raised:
        Registry(settings_of(url), patience=0).schema(1)
    assert url in str(raised.value)


def test_requests_wait_for_a_registry_that_restarts() -> None:
    answers = {"/schemas/ids/1": (503, "later")}
    with answering_registry(answers) as (url, requests):
        threading.Timer(0.7, answers.update, [{"/schemas/ids/1": schema_answer(RECORD)}]).start()
        assert Registry(settings_of(url)).schema(1) == RegisteredSchema(RECORD, (), "AVRO")
        assert len(requests) > 1


def test_requests_wait_for_a_hung_registry_as_long_as_for_one_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a request counts: with only the pauses of half a second, three would fit into one second."""
    monkeypatch.setattr(registry_client, "_READ", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=9) as server:
        server.settimeout(0)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RegistryError, match="cannot be reached"):
            Registry(settings_of(url), patience=1.0).schema(1)
        request_count = 0
        with suppress(BlockingIOError):
            while True:
                server.accept()[0].close()
                request_count += 1
    assert request_count == 2


@pytest.mark.parametrize("sent_bytes", [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"nonsense\r\n\r\n", b""])
def test_an_incomplete_answer_is_no_answer(sent_bytes: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(65_536)
                connection.sendall(sent_bytes)

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RegistryError, match="cannot be reached"):
            Registry(settings_of(url), patience=0).schema(1)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: "])
def test_a_slow_answer_ends_at_its_time_limit(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    for limit in ("_ANSWER", "_CONNECT", "_READ"):
        monkeypatch.setattr(registry_client, limit, 0.3)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(head)
                while not ended.wait(0.05):
                    connection.sendall(b" ")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RegistryError, match="[01] seconds"):
            Registry(settings_of(url), patience=0).schema(1)
        ended.set()


@pytest.mark.parametrize("secret", ["t0ken\n", " t0ken", "t0\nken"])
def test_a_secret_with_white_space_is_refused_and_not_shown(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "PASSWORD"):
        with monkeypatch.context() as patch:
            patch.setenv(f"LAKEHOUSE_REGISTRY_{name}", secret)
            with pytest.raises(SettingsError, match=f"REGISTRY_{name}") as raised:
                Settings.load()
        assert "t0" not in str(raised.value)


def test_a_password_may_have_any_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering_registry({"/schemas/ids/1": schema_answer(RECORD)}) as (url, requests):
        Registry(settings_of(url, registry_username="\u0141", registry_password="\u0142")).schema(1)
    assert requests[0].authorization == "Basic xYE6xYI="


def test_an_external_broker_has_no_embedded_registry(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers="broker:9092")
    with pytest.raises(RegistryError, match="LAKEHOUSE_REGISTRY_URL"):
        Registry(settings)
    with pytest.raises(RegistryError, match="LAKEHOUSE_REGISTRY_URL"), running_registry(settings):
        pass


def test_an_unreachable_registry_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(RegistryError, match="cannot be reached.*LAKEHOUSE_REGISTRY_URL"):
        Registry(settings_of("http://127.0.0.1:1"), patience=0).schema(1)


@pytest.mark.parametrize(
    ("secrets", "header"),
    [
        ({"registry_username": "ann", "registry_password": "s3cret"}, "Basic YW5uOnMzY3JldA=="),
        ({"registry_token": "t0ken"}, "Bearer t0ken"),
        ({}, None),
    ],
)
def test_only_the_registry_gets_the_credentials(secrets: dict[str, str], header: str | None) -> None:
    with answering_registry({"/schemas/ids/1": (403, "Forbidden")}) as (url, requests):
        settings = settings_of(url, **secrets)
        with pytest.raises(RegistryError) as raised:
            Registry(settings).schema(1)
    assert requests[0].authorization == header
    shown_text = f"{raised.value} {settings!r}"
    assert not [secret for secret in ("s3cret", "t0ken") if secret in shown_text]


@pytest.mark.parametrize(
    "url", ["registry:8081", "ftp://r", "http://", "http://ann:secret@r", "http://r/?key=1", "http://r/a b"]
)
def test_an_invalid_address_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", url)
    with pytest.raises(SettingsError, match="LAKEHOUSE_REGISTRY_URL") as raised:
        Settings.load()
    assert "secret" not in str(raised.value)


def test_a_fingerprint_depends_only_on_the_meaning_of_a_schema() -> None:
    formatted_text = json.dumps({**json.loads(RECORD), "doc": "Words."}, indent=4)
    assert fingerprint(writer_schema(formatted_text)) == fingerprint(writer_schema(RECORD))
    for text, other_text in (("long", "int"), ('"a"', '"b"')):
        assert fingerprint(writer_schema(RECORD.replace(text, other_text))) != fingerprint(writer_schema(RECORD))
    money = '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": %d}'
    scales = {fingerprint(writer_schema(RECORD.replace('"long"', money % scale))) for scale in (1, 2)}
    assert len(scales) == 2


def test_an_invalid_decimal_does_not_change_a_fingerprint() -> None:
    """An earlier schema may have been kept unchanged."""
    for invalid_type in ('{"type": "bytes", "logicalType": "decimal"}', '{"type": "string", "logicalType": "decimal"}'):
        kept_schema = WriterSchema(RECORD.replace('"long"', invalid_type))
        assert fingerprint(writer_schema(kept_schema.text)) == fingerprint(kept_schema)


@pytest.mark.parametrize(
    ("type_", "attributes", "data", "value"),
    [
        ("string", {"default": None}, b"\x02x", "x"),
        ({"type": "double"}, {"default": 0}, b"\x00" * 8, 0.0),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 9}, {}, b"\x05", b"\x05"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, {}, b"\x02\x05", b"\x05"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}, {}, b"\x02\x05", Decimal("0.05")),
    ],
)
def test_an_attribute_without_effect_is_ignored(type_: Any, attributes: Any, data: bytes, value: Any) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_, **attributes}]})
    assert reader_of(writer_schema(text))(data, 0) == {"a": value}
