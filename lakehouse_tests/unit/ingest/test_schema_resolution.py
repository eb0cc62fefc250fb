"""What becomes of ids that a registry does not let us read, or of which it tells no text that can be written."""

from typing import Any

import pytest

from lakehouse.declaration import Avro
from lakehouse.decoding.formats.avro_schemas import writer_schema
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, UnusableSchemaError, WriterSchema
from lakehouse.errors import RegistryError
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.ingest.schema_resolution import _ask, _first_and_last, _likely_first, _means_the_same
from lakehouse.kafka.registry_client import SchemaRefusedError

REGISTERED = RegisteredSchema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}', (), "AVRO")
SCHEMA = writer_schema(REGISTERED.text)
REFUSED = SchemaRefusedError("refused")


class Told:
    """A registry that answers so."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers = answers

    def schema(self, schema_id: int, kind: str) -> Any:
        assert kind == "AVRO"
        answer = self.answers.get(schema_id)
        if isinstance(answer, Exception):
            raise answer
        return answer


def asked(answers: dict[int, Any], *, trusted: bool = False) -> tuple[dict[int, Any], dict[int, str]]:
    registry: Any = Told(answers)
    return _ask(registry, Avro(), list(answers), trusted=trusted)


def test_a_schema_that_we_may_not_read_rejects_its_own_records_alone() -> None:
    found, unusable = asked({1: REGISTERED, 2: REFUSED, 3: None})
    assert found == {1: SCHEMA}
    assert unusable == {2: "the registry does not let us read it"}
    assert asked({2: REFUSED}, trusted=True)[1].keys() == {2}


def test_a_registry_that_lets_us_read_nothing_is_no_verdict_on_a_record() -> None:
    with pytest.raises(RegistryError, match="refused"):
        asked({1: REFUSED, 2: None})


def test_why_a_schema_is_of_no_use_can_be_written_down() -> None:
    _, unusable = asked({1: UnusableSchemaError("it names \ud800")})
    assert unusable[1].encode() == b"it names ?"


def test_ids_that_come_next_are_asked_for_before_bytes_that_are_no_ids() -> None:
    known = Schemas({7: SCHEMA}, {})
    assert _likely_first([900_000, 9, 3, 8, 900_001], known) == [8, 9, 900_000, 3, 900_001]


def confirmed(kept: WriterSchema, answer: Any, *, met: bool = True) -> bool:
    registry: Any = Told({1: answer})
    return _means_the_same(registry, 1, Schemas({1: kept}, {}), movie_ratings, met=met)


def test_a_kept_schema_that_would_not_be_kept_today_is_compared_with_nothing() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unheard"}]}'
    assert not confirmed(WriterSchema(text), UnusableSchemaError("too deep"))
    with pytest.raises(RegistryError, match="cannot be used any more"):
        confirmed(SCHEMA, UnusableSchemaError("too deep"))


def test_a_kept_schema_that_we_may_not_read_stops_a_batch_whose_records_name_it_and_no_other() -> None:
    assert confirmed(SCHEMA, REGISTERED)
    assert not confirmed(SCHEMA, None)
    assert not confirmed(SCHEMA, REFUSED, met=False)
    with pytest.raises(RegistryError, match="refused"):
        confirmed(SCHEMA, REFUSED)


def test_of_many_kept_ids_the_first_and_the_last_are_compared() -> None:
    assert _first_and_last(Schemas(dict.fromkeys(range(1, 1_001), SCHEMA), {})) == [*range(1, 101), *range(901, 1_001)]
    assert {*_first_and_last(Schemas({7: SCHEMA, 9: SCHEMA}, {}))} == {7, 9}
