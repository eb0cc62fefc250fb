"""Schema ids that a registry does not permit us to read, or whose schemas cannot be used or have changed."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.declaration import Avro, Column, Protobuf, StreamTable
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, UnusableSchemaError, WriterSchema
from lakehouse.errors import RegistryError
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.ingest import schema_resolution
from lakehouse.ingest.schema_resolution import (
    MAX_REQUESTED_IDS,
    MAX_REQUESTS,
    _first_and_last,
    _is_unchanged,
    _likely_first,
    _read_schemas,
    resolve_schemas,
)
from lakehouse.kafka.registry_client import SchemaRefusedError

REGISTERED = RegisteredSchema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}', (), "AVRO")
SCHEMA = writer_schema(REGISTERED.text)
REFUSAL = SchemaRefusedError("refused")


class AnsweringRegistry:
    """A registry with fixed answers."""

    def __init__(self, answers: dict[int, Any], requests_of_each: int = 1) -> None:
        self.answers, self.requests_of_each = answers, requests_of_each
        self.request_count = 0

    def schema(self, schema_id: int, kind: str) -> Any:
        assert kind == "AVRO"
        self.request_count += self.requests_of_each
        answer = self.answers.get(schema_id)
        if isinstance(answer, Exception):
            raise answer
        return answer


def read_schemas(answers: dict[int, Any], *, is_trusted: bool = False) -> tuple[dict[int, Any], dict[int, str]]:
    registry: Any = AnsweringRegistry(answers)
    reading = _read_schemas(registry, Avro(), list(answers))
    reading.require_right(is_trusted=is_trusted)
    return reading.schemas, reading.unusable_reasons


def test_a_refused_schema_rejects_only_its_own_records() -> None:
    schemas, unusable = read_schemas({1: REGISTERED, 2: REFUSAL, 3: None})
    assert schemas == {1: SCHEMA}
    assert unusable == {2: "the registry does not permit us to read it"}
    assert read_schemas({2: REFUSAL}, is_trusted=True)[1].keys() == {2}


def test_a_registry_that_refuses_every_schema_rejects_no_record() -> None:
    with pytest.raises(RegistryError, match="refused"):
        read_schemas({1: REFUSAL, 2: None})


def test_the_reason_of_an_unusable_schema_can_be_encoded() -> None:
    _, unusable = read_schemas({1: UnusableSchemaError("it names \ud800")})
    assert unusable[1].encode() == b"it names ?"


def test_the_next_ids_of_a_registry_are_requested_before_unlikely_ids() -> None:
    known_schemas = Schemas({7: SCHEMA}, {})
    assert _likely_first([900_000, 9, 3, 8, 900_001], known_schemas) == [8, 9, 900_000, 3, 900_001]


def is_confirmed(kept_schema: WriterSchema, answer: Any, *, is_in_batch: bool = True) -> bool:
    registry: Any = AnsweringRegistry({1: answer})
    return _is_unchanged(registry, 1, Schemas({1: kept_schema}, {}), movie_ratings, is_in_batch=is_in_batch)


def test_a_kept_schema_that_would_not_be_kept_today_is_not_compared() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unheard"}]}'
    assert not is_confirmed(WriterSchema(text), UnusableSchemaError("too deep"))
    with pytest.raises(RegistryError, match="can no longer be used"):
        is_confirmed(SCHEMA, UnusableSchemaError("too deep"))


PROTO = RegisteredSchema('syntax = "proto3"; message M { int32 a = 1; }', (), "PROTOBUF")
PROTO_TABLE = StreamTable("orders", "orders", "Orders.", [Column("a", "INT", "A number.")], [], format=Protobuf())


def is_proto_confirmed(kept_schema: WriterSchema, answer: RegisteredSchema = PROTO) -> bool:
    client: Any = SimpleNamespace(schema=lambda *_: answer)
    return _is_unchanged(client, 1, Schemas({1: kept_schema}, {}), PROTO_TABLE, is_in_batch=True)


def test_a_schema_is_compiled_again_only_if_its_text_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_schema = Protobuf().writer_schema(PROTO)
    assert is_proto_confirmed(kept_schema, PROTO._replace(text=f"{PROTO.text} // the same"))
    with pytest.raises(RegistryError, match="Schema 1 of the registry has changed"):
        is_proto_confirmed(kept_schema, PROTO._replace(text=PROTO.text.replace("int32", "int64")))
    monkeypatch.setattr(Protobuf, "writer_schema", None)
    assert is_proto_confirmed(kept_schema)


def test_a_kept_schema_in_an_older_form_stops_the_batch_with_what_to_do() -> None:
    with pytest.raises(
        RegistryError, match="kept in orders_schemas in a form that this version does not read"
    ) as error:
        is_proto_confirmed(WriterSchema('{"roots": [["M", []]], "messages": {"M": []}}', (), "PROTOBUF"))
    assert error.value.action.startswith("Nothing was written. Delete the table orders_schemas")


def test_a_refused_kept_schema_stops_only_a_batch_whose_records_use_it() -> None:
    assert is_confirmed(SCHEMA, REGISTERED)
    assert not is_confirmed(SCHEMA, None)
    assert not is_confirmed(SCHEMA, REFUSAL, is_in_batch=False)
    with pytest.raises(RegistryError, match="refused"):
        is_confirmed(SCHEMA, REFUSAL)


def requests_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, answers: dict[int, Any], ids: list[int], requests_of_each: int = 1
) -> tuple[int, set[int]]:
    """Return how many requests a batch with these ids makes, and the ids that it knows then; 1 to 300 are kept."""
    known_answers = dict.fromkeys(range(1, 301), REGISTERED)
    client = AnsweringRegistry({**known_answers, **answers}, requests_of_each)
    monkeypatch.setattr(schema_resolution, "registry", lambda _: nullcontext(client))
    monkeypatch.setattr(schema_resolution, "_keep_schemas", lambda *_: None)
    context: Any = SimpleNamespace(settings=None, table=movie_ratings)
    known_schemas = Schemas(dict.fromkeys(range(1, 301), SCHEMA), {})
    schemas = resolve_schemas(context, known_schemas, ids, confirm=True)
    return client.request_count, schemas.by_id.keys() - known_schemas.by_id.keys()


def test_an_id_that_stays_unknown_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requests_of_a_batch(monkeypatch, {}, [7, 900]) == (2, set())
    assert requests_of_a_batch(monkeypatch, {900: UnusableSchemaError("odd")}, [7, 900]) == (2, set())
    assert requests_of_a_batch(monkeypatch, {900: REFUSAL}, [900]) == (2, set()), "one shows that we may read"


def test_a_new_schema_is_kept_only_after_the_first_and_the_last_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requests_of_a_batch(monkeypatch, {301: REGISTERED}, [7, 301]) == (201, {301})
    other_schema = RegisteredSchema(REGISTERED.text.replace("long", "string"), (), "AVRO")
    with pytest.raises(RegistryError, match="Schema 300 of the registry has changed"):
        requests_of_a_batch(monkeypatch, {301: REGISTERED, 300: other_schema}, [7, 301])


def test_the_requests_of_a_batch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    count, _ = requests_of_a_batch(monkeypatch, {}, [*range(1_000, 2_500)], requests_of_each=200)
    assert count == MAX_REQUESTS
    count, _ = requests_of_a_batch(monkeypatch, {}, [*range(1_000, 2_500)])
    assert count == MAX_REQUESTED_IDS


def test_the_first_and_the_last_of_many_kept_ids_are_compared() -> None:
    assert _first_and_last(Schemas(dict.fromkeys(range(1, 1_001), SCHEMA), {})) == [*range(1, 101), *range(901, 1_001)]
    assert {*_first_and_last(Schemas({7: SCHEMA, 9: SCHEMA}, {}))} == {7, 9}
