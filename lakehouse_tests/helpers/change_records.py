"""Records of a change stream, as Debezium's connector for PostgreSQL writes them."""

import json
from collections.abc import Mapping
from typing import Any

from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.brokers.registries import body

UNAVAILABLE = "__debezium_unavailable_value"


def change(op: str, position: int | None, row: dict[str, Any] | None, **fields: Any) -> bytes:
    """Return an envelope; ``row`` is the row after the change, or before a delete."""
    snapshot = "true" if op == "r" else "false"
    source = {"connector": "postgresql", "lsn": position, "snapshot": snapshot, **fields.pop("source", {})}
    sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return json.dumps({**sides, "source": source, "op": op, "ts_ms": 1, **fields}).encode()


def with_schema(envelope: bytes, *row_fields: dict[str, Any]) -> bytes:
    """Return an envelope with the schema of its row, as the JSON converter writes it with ``schemas.enable``."""
    row = {"type": "struct", "optional": True, "fields": list(row_fields)}
    sides = [{**row, "field": side} for side in ("before", "after")]
    schema = {"type": "struct", "fields": [*sides, {"type": "string", "field": "op"}]}
    return json.dumps({"schema": schema, "payload": json.loads(envelope)}).encode()


def avro_change(types: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, bytes]:
    """The schema of an envelope whose rows have fields of these types in Avro, and a record of schema 3 with a row."""

    def record(name: str, types: Mapping[str, Any]) -> dict[str, Any]:
        fields = [{"name": field, "type": type_} for field, type_ in types.items()]
        return {"type": "record", "name": name, "fields": fields}

    sides = {"before": ["null", record("Value", types)], "after": ["null", "Value"]}
    schema = record("Envelope", {**sides, "source": record("Source", {"lsn": "long"}), "op": "string"})
    envelope = {"before": None, "after": row, "source": {"lsn": 7}, "op": "c"}
    return json.dumps(schema), add_frame(3, body(schema, envelope))
