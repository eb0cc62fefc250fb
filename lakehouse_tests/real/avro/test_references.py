"""A schema with references in a real registry: all of them are stored, and a replay works without the registry."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import requests
from deltalake import DeltaTable

from lakehouse.declaration import Column
from lakehouse.decoding.formats.avro.schemas import fingerprint, writer_schema
from lakehouse.kafka import create_topic
from lakehouse.kafka import registry_client as registries
from lakehouse.settings import Settings
from lakehouse.settings.addresses import registry_url
from lakehouse_tests.helpers.brokers.registries import COLUMNS, FIRST, encode_records, order_table
from lakehouse_tests.helpers.brokers.streams import Stream, counts

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADDRESS: dict[str, Any] = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
FIELDS = [{"name": "name", "type": "string"}, {"name": "address", "type": ["null", "Address"]}]
CUSTOMER: dict[str, Any] = {"type": "record", "name": "Customer", "fields": FIELDS}
ORDER: dict[str, Any] = {**FIRST, "fields": [*FIRST["fields"], {"name": "customer", "type": "Customer"}]}
_FIELDS_OF_WHOLE = [FIELDS[0], {"name": "address", "type": ["null", ADDRESS]}]
SCHEMA: dict[str, Any] = {
    **FIRST,
    "fields": [*FIRST["fields"], {"name": "customer", "type": {**CUSTOMER, "fields": _FIELDS_OF_WHOLE}}],
}
"""The same order as one schema; it gives a record the same bytes."""


@pytest.fixture
def stream(spark: Any, registry: Settings) -> Stream:
    city = Column("city", "STRING", "Where the customer lives.", source=("customer", "address", "city"))
    stream = Stream(spark, registry, order_table(columns=[*COLUMNS, city]))
    create_topic(registry, stream.table)
    return stream


def register(stream: Stream, schema: dict[str, Any], subject: str, refers_to: dict[str, str]) -> int:
    """Register a schema that references version 1 of other subjects; ``refers_to`` maps names to subjects."""
    references = [{"name": name, "subject": other_subject, "version": 1} for name, other_subject in refers_to.items()]
    text = json.dumps({**schema, "namespace": stream.table.name})
    request = {"schema": text, "schemaType": "AVRO", "references": references}
    url = f"{registry_url(stream.settings)}/subjects/{subject}/versions"
    response = requests.post(url, json=request, timeout=30)
    assert response.status_code == 200, response.text
    return int(response.json()["id"])


def register_order(stream: Stream) -> int:
    """Register an order that references a customer, which references an address; return the order's schema id."""
    name = stream.table.name
    register(stream, ADDRESS, f"{name}-address", {})
    register(stream, CUSTOMER, f"{name}-customer", {f"{name}.Address": f"{name}-address"})
    return register(stream, ORDER, f"{stream.table.topic}-value", {f"{name}.Customer": f"{name}-customer"})


def order(number: int, city: str | None) -> dict[str, Any]:
    address = None if city is None else {"city": city}
    return {"id": Decimal(number), "at": NOON, "total": 1.0, "customer": {"name": "Ann", "address": address}}


def send(stream: Stream, schema_id: int) -> None:
    values = [order(1, "Erlangen"), order(2, None), order(1, "London")]
    stream.send(*encode_records(schema_id, {**SCHEMA, "namespace": stream.table.name}, values))


def stored_schemas(stream: Stream) -> list[dict[str, Any]]:
    """The rows of the schema table, read without Spark."""
    schema_table = DeltaTable(stream.settings.table_uri(f"{stream.table.name}_schemas"))
    return pa.table(schema_table.to_pyarrow_table()).to_pylist()


def with_full_names(schema: dict[str, Any], namespace: str) -> dict[str, Any]:
    full_names = {name: f"{namespace}.{name}" for name in ("Address", "Customer", "Order")}

    def rename(part: Any) -> Any:
        if isinstance(part, list):
            return [rename(item) for item in part]
        return full_names.get(part, part) if isinstance(part, str) else part

    fields = [{**field, "type": rename(field["type"])} for field in schema["fields"]]
    return {"type": "record", "name": full_names[schema["name"]], "fields": fields}


@pytest.mark.invariant("8.13")
def test_a_schema_is_stored_with_its_references_in_dependency_order(stream: Stream) -> None:
    schema_id = register_order(stream)
    send(stream, schema_id)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=3, rejected=0, superseded=1, inserted=2, updated=0, stale=0)
    rows = stream.sql("SELECT CAST(id AS INT), customer, city FROM {t} ORDER BY id")
    assert rows == [(1, "Ann", "London"), (2, "Ann", None)]
    (row,) = stored_schemas(stream)
    name = stream.table.name
    assert row.keys() == {"id", "fingerprint", "schema", "references"}
    assert row["id"] == schema_id
    assert json.loads(row["schema"]) == with_full_names(ORDER, name)
    assert [*map(json.loads, row["references"])] == [with_full_names(schema, name) for schema in (ADDRESS, CUSTOMER)]
    text, *references = (json.dumps({**schema, "namespace": name}) for schema in (ORDER, ADDRESS, CUSTOMER))
    assert row["fingerprint"] == fingerprint(writer_schema(text, references))
    stream.assert_accounted()


@pytest.mark.invariant("3.1", "8.13")
def test_a_replay_without_the_registry_reads_a_schema_with_references_and_changes_nothing(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(stream, register_order(stream))
    stream.merge()
    rows, files, schemas = stream.snapshot_of("id"), sorted(DeltaTable(stream.uri).file_uris()), stored_schemas(stream)
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    offline_settings = Settings(**{**stream.settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
    (replay_outcome,) = Stream(stream.spark, offline_settings, stream.table).replay()
    assert counts(replay_outcome.entry) == dict(read=3, rejected=0, superseded=1, inserted=0, updated=0, stale=2)
    assert stream.snapshot_of("id") == rows
    assert sorted(DeltaTable(stream.uri).file_uris()) == files
    assert stored_schemas(stream) == schemas
    stream.assert_accounted()
