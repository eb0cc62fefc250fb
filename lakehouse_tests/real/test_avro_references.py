"""A schema that refers to others, in a real registry: what it means is kept with them, and read again without it."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import requests
from deltalake import DeltaTable

from lakehouse.declaration import Column
from lakehouse.decoding.formats.avro_schemas import fingerprint, writer_schema
from lakehouse.kafka import create_topic
from lakehouse.kafka import registry_client as registries
from lakehouse.settings import Settings
from lakehouse.settings.registry_address import registry_url
from lakehouse_tests.helpers.brokers.registries import COLUMNS, FIRST, order_table, written
from lakehouse_tests.helpers.brokers.streams import Stream, counts

pytestmark = [pytest.mark.invariant(3, 8), pytest.mark.slow]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADDRESS: dict[str, Any] = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
FIELDS = [{"name": "name", "type": "string"}, {"name": "address", "type": ["null", "Address"]}]
CUSTOMER: dict[str, Any] = {"type": "record", "name": "Customer", "fields": FIELDS}
ORDER: dict[str, Any] = {**FIRST, "fields": [*FIRST["fields"], {"name": "customer", "type": "Customer"}]}
_FIELDS_OF_WHOLE = [FIELDS[0], {"name": "address", "type": ["null", ADDRESS]}]
WHOLE: dict[str, Any] = {
    **FIRST,
    "fields": [*FIRST["fields"], {"name": "customer", "type": {**CUSTOMER, "fields": _FIELDS_OF_WHOLE}}],
}
"""The same order in one schema, by which the bytes of a record are the same."""


@pytest.fixture
def stream(spark: Any, registry: Settings) -> Stream:
    city = Column("city", "STRING", "Where the customer lives.", source=("customer", "address", "city"))
    made = Stream(spark, registry, order_table(columns=[*COLUMNS, city]))
    create_topic(registry, made.table)
    return made


def register(stream: Stream, schema: dict[str, Any], subject: str, refers_to: dict[str, str]) -> int:
    """Register a schema that refers to the first version of other subjects, by the names it has for them."""
    references = [{"name": name, "subject": other, "version": 1} for name, other in refers_to.items()]
    text = json.dumps({**schema, "namespace": stream.table.name})
    sent = {"schema": text, "schemaType": "AVRO", "references": references}
    url = f"{registry_url(stream.settings)}/subjects/{subject}/versions"
    answer = requests.post(url, json=sent, timeout=30)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def registered(stream: Stream) -> int:
    """An order that refers to a customer, which refers to an address: the id of the order's schema."""
    name = stream.table.name
    register(stream, ADDRESS, f"{name}-address", {})
    register(stream, CUSTOMER, f"{name}-customer", {f"{name}.Address": f"{name}-address"})
    return register(stream, ORDER, f"{stream.table.topic}-value", {f"{name}.Customer": f"{name}-customer"})


def order(number: int, city: str | None) -> dict[str, Any]:
    address = None if city is None else {"city": city}
    return {"id": Decimal(number), "at": NOON, "total": 1.0, "customer": {"name": "Ann", "address": address}}


def send(stream: Stream, schema_id: int) -> None:
    values = [order(1, "Erlangen"), order(2, None), order(1, "London")]
    stream.send(*written(schema_id, {**WHOLE, "namespace": stream.table.name}, values))


def kept(stream: Stream) -> list[dict[str, Any]]:
    """The rows of the table of schemas, as anybody reads them."""
    there = DeltaTable(stream.settings.table_uri(f"{stream.table.name}_schemas"))
    return pa.table(there.to_pyarrow_table()).to_pylist()


def named_in_full(schema: dict[str, Any], namespace: str) -> dict[str, Any]:
    own = {name: f"{namespace}.{name}" for name in ("Address", "Customer", "Order")}

    def full(part: Any) -> Any:
        if isinstance(part, list):
            return [full(each) for each in part]
        return own.get(part, part) if isinstance(part, str) else part

    fields = [{**field, "type": full(field["type"])} for field in schema["fields"]]
    return {"type": "record", "name": own[schema["name"]], "fields": fields}


def test_a_schema_is_kept_with_those_it_refers_to_each_after_what_it_refers_to_itself(stream: Stream) -> None:
    schema_id = registered(stream)
    send(stream, schema_id)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=3, rejected=0, duplicate=1, inserted=2, updated=0, stale=0)
    rows = stream.sql("SELECT CAST(id AS INT), customer, city FROM {t} ORDER BY id")
    assert rows == [(1, "Ann", "London"), (2, "Ann", None)]
    (row,) = kept(stream)
    name = stream.table.name
    assert row.keys() == {"id", "fingerprint", "schema", "references"}
    assert row["id"] == schema_id
    assert json.loads(row["schema"]) == named_in_full(ORDER, name)
    assert [*map(json.loads, row["references"])] == [named_in_full(each, name) for each in (ADDRESS, CUSTOMER)]
    text, *before = (json.dumps({**each, "namespace": name}) for each in (ORDER, ADDRESS, CUSTOMER))
    assert row["fingerprint"] == fingerprint(writer_schema(text, before))
    stream.assert_accounted()


def test_a_replay_reads_a_schema_that_refers_to_others_without_the_registry_and_changes_nothing(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(stream, registered(stream))
    stream.merge()
    rows, files, schemas = stream.snapshot_of("id"), sorted(DeltaTable(stream.uri).file_uris()), kept(stream)
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    away = Settings(**{**stream.settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
    (again,) = Stream(stream.spark, away, stream.table).replay()
    assert counts(again.entry) == dict(read=3, rejected=0, duplicate=1, inserted=0, updated=0, stale=2)
    assert stream.snapshot_of("id") == rows
    assert sorted(DeltaTable(stream.uri).file_uris()) == files
    assert kept(stream) == schemas
    stream.assert_accounted()
