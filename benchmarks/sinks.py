"""What a sink to PostgreSQL costs: a first load and changes, against a plain COPY of the same rows."""

import json
import tempfile
from io import BytesIO
from pathlib import Path
from random import Random
from uuid import uuid4

import numpy as np
import psycopg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import csv

from benchmarks.turns import Measurement
from lakehouse.declaration import PostgresTable, Sink
from lakehouse.declaration.sink import RowIdentity
from lakehouse.settings import Settings
from lakehouse.sinks.database import DatabaseDelivery
from lakehouse_tests.helpers.databases.postgres import Postgres, running_postgres

LOADED, CHANGED = 5_000_000, 5_000
BASELINE = "plain COPY"
_PART = 500_000
_COLUMNS = "(id text, price double precision, sold_at timestamptz)"
_UPSERT = (
    "INSERT INTO plain SELECT * FROM st ON CONFLICT (id) DO UPDATE SET price = excluded.price, sold_at ="
    " excluded.sold_at"
)


def run(turns: int) -> dict[str, dict[str, Measurement]]:
    """Load a table once, then change rows of it, half new and half updated, in turns."""
    load, changes = ({BASELINE: Measurement(), "sink": Measurement()} for _ in range(2))
    with running_postgres() as server, tempfile.TemporaryDirectory() as home:
        url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        settings = Settings(home=Path(home), sync=False, sink_urls=json.dumps({"postgres": url}), _env_file=None)
        uri = settings.table_uri("sales")
        for first in range(0, LOADED, _PART):
            properties = {"delta.enableChangeDataFeed": "true"}
            write_deltalake(uri, _rows(range(first, first + _PART)), mode="append", configuration=properties)
        delivery = DatabaseDelivery(
            settings, Sink("sales_sink", of="sales", to=PostgresTable("sales")), RowIdentity(("id",))
        )
        text = _csv(DeltaTable(uri).to_pyarrow_table())
        with load[BASELINE].turn():
            _load(server, text)
        with load["sink"].turn():
            delivery.update()
        for turn in range(turns):
            rows = _changed_rows(turn)
            merger = DeltaTable(uri).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
            text = _csv(rows)
            with changes[BASELINE].turn():
                _change(server, text)
            with changes["sink"].turn():
                delivery.update()
    return {f"{LOADED:,} rows, once": load, f"{CHANGED:,} changed rows": changes}


def _rows(numbers: range | list[int]) -> pa.Table:
    random = np.random.default_rng(uuid4().int)
    times = pa.array(random.integers(0, 2**50, len(numbers)), pa.timestamp("us", "UTC"))
    return pa.table({"id": [f"sale-{n:09d}" for n in numbers], "price": random.random(len(numbers)), "sold_at": times})


def _changed_rows(turn: int) -> pa.Table:
    half, first = CHANGED // 2, LOADED + turn * CHANGED
    return _rows([*Random(turn).sample(range(LOADED), half), *range(first, first + half)])  # noqa: S311 - no secret


def _csv(rows: pa.Table) -> bytes:
    buffer = BytesIO()
    csv.write_csv(rows, buffer, csv.WriteOptions(include_header=False))
    return buffer.getvalue()


def _load(server: Postgres, text: bytes) -> None:
    with server.connect() as connection, connection.transaction():
        connection.execute(f"CREATE TABLE plain {_COLUMNS}".encode())
        _copy(connection, "plain", text)
        connection.execute("ALTER TABLE plain ADD PRIMARY KEY (id)")


def _change(server: Postgres, text: bytes) -> None:
    with server.connect() as connection, connection.transaction():
        connection.execute(f"CREATE TEMPORARY TABLE st {_COLUMNS} ON COMMIT DROP".encode())
        _copy(connection, "st", text)
        connection.execute(_UPSERT.encode())


def _copy(connection: "psycopg.Connection[object]", name: str, text: bytes) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)".encode()) as copy:
        for start in range(0, len(text), _PART):
            copy.write(text[start : start + _PART])
