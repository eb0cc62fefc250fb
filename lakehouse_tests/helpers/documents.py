"""Changes of documents of MongoDB, as Debezium's connector writes them, and a table for them."""

import json
from pathlib import Path
from typing import Any

from lakehouse.declaration import Column, Debezium, RecordKey, StreamTable, Time, Topic
from lakehouse_tests.helpers.places import ROOT

MONGODB = ROOT.parent / "shared" / "data" / "cases" / "02-debezium-mongodb"
"""A case that people reported, with its right rows."""
COLUMNS = [
    Column("id", "STRING", source=RecordKey("json", "id"), required=True, doc="Its id, as JSON."),
    Column("customer", "STRING", doc="Who ordered."),
    Column("total", "DECIMAL(12,2)", doc="Its price."),
    Column("qty", "BIGINT", doc="How many."),
    Column("placed", "TIMESTAMP", written=Time("iso8601"), doc="When."),
    Column("city", "STRING", source=("ship", "city"), doc="Where to."),
    Column("tags_json", "STRING", source="tags", written="json", doc="Its tags."),
]


def orders(name: str = "orders", *columns: Column, form: Debezium | None = None) -> StreamTable:
    """The table of the case."""
    topic = Topic(name, partitions=1)
    form = form or Debezium(documents=True)
    return StreamTable(name, source=topic, doc="Orders.", columns=columns or COLUMNS, key=["id"], format=form)


def document_change(op: str, place: tuple[int, int], document: Any, **source: Any) -> bytes:
    """An envelope with a document, made at a second and a number in it."""
    after = document if document is None or isinstance(document, str) else json.dumps(document)
    second, number = place
    origin = {"connector": "mongodb", "ts_ms": second * 1000, "ord": number, "snapshot": "false", **source}
    return json.dumps({"before": None, "after": after, "op": op, "source": origin}).encode()


def key_of(id_: Any) -> bytes:
    """The key of a record about a document."""
    return json.dumps({"id": json.dumps(id_)}).encode()


def records_in(folder: Path) -> list[tuple[bytes, bytes | None]]:
    """The keys and values of the case."""
    records = map(json.loads, (folder / "in.jsonl").read_text().splitlines())
    return [(record["key"].encode(), record["value"] and record["value"].encode()) for record in records]


def as_expected(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its values as texts, as the case has them."""
    placed = row["placed"].replace(tzinfo=None).isoformat(sep=" ").removesuffix("000")
    row = {name: value for name, value in row.items() if name != "_record"}
    return row | {"total": None if row["total"] is None else str(row["total"]), "placed": placed}
