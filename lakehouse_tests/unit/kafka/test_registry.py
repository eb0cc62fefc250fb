"""Answers of a schema registry: a schema, a missing schema, or an error with its cause."""

import json
import socket
import threading
from contextlib import suppress

import pytest

from lakehouse.declaration import Avro
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.errors import RegistryError
from lakehouse.kafka import registry_client
from lakehouse.kafka.registry_client import Registry, writer_schema_of
from lakehouse_tests.helpers.brokers.registries import RECORD, Answer, answering_registry, schema_answer, settings_of


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


def test_a_schema_that_is_missing_is_requested_once() -> None:
    referring = schema_answer(RECORD, references=[{"name": "G", "subject": "gone", "version": 1}])
    gone_answer = 404, '{"error_code": 40401, "message": "no subject"}'
    answers = {"/schemas/ids/1": referring, "/schemas/ids/2": referring, "/subjects/gone/versions/1": gone_answer}
    with answering_registry(answers) as (url, requests):
        registry = Registry(settings_of(url))
        for schema_id in (1, 2):
            with pytest.raises(UnusableSchemaError, match="version 1 of gone, which does not exist"):
                registry.schema(schema_id)
    assert len(requests) == registry.request_count == 3


def test_a_schema_with_too_many_references_requests_none_of_them() -> None:
    references = [{"name": f"N{number}", "subject": f"s{number}", "version": 1} for number in range(201)]
    answers = {"/schemas/ids/1": schema_answer(RECORD, references=references)}
    is_refused = pytest.raises(UnusableSchemaError, match="more than 200 schemas")
    with answering_registry(answers) as (url, requests), is_refused:
        Registry(settings_of(url)).schema(1)
    assert len(requests) == 1


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
        names = tuple(("I", text) for text in references)
        assert Registry(settings_of(url)).schema(1, kind) == RegisteredSchema("outer", references, "PROTOBUF", names)
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


def test_an_unreachable_registry_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(RegistryError, match="cannot be reached.*LAKEHOUSE_REGISTRY_URL"):
        Registry(settings_of("http://127.0.0.1:1"), patience=0).schema(1)
