"""Commands on a machine whose tables are in an object store, and the requests that each command sends."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lakehouse_tests.helpers.tables.store_proxy import StoreRequest

_PROGRAM = "from lakehouse.cli.main import main; main()"
DECLARATION = """
from lakehouse import Column, Measure, Rollup, StreamTable, Topic

items = StreamTable(
    name="items",
    source=Topic("items", partitions=1),
    doc="Items.",
    file=__file__,
    key=["id"],
    columns=[Column("id", "BIGINT", required=True, doc="Id."), Column("place", "STRING", doc="Place.")],
    rollups=[Rollup("by_place", ["place"], {"items": Measure("count(*)", "BIGINT", "How many.")}, "By place.")],
)
"""


class Commands:
    """Commands in an environment whose tables are in a store."""

    def __init__(self, folder: Path, root: str) -> None:
        self.folder = folder
        self.declare(DECLARATION)
        self.variables = {
            "LAKEHOUSE_HOME": str(folder / "home"),
            "LAKEHOUSE_TABLES": root,
            "LAKEHOUSE_DECLARATIONS": str(folder / "items.py"),
            "LAKEHOUSE_REVIEWED": "true",
        }

    def declare(self, text: str) -> None:
        (self.folder / "items.py").write_text(text)

    def run(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        result = subprocess.run(
            command, env=environment | self.variables, capture_output=True, text=True, timeout=400, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def publish(self, places: dict[int, str]) -> None:
        lines = (json.dumps({"id": number, "place": place}) for number, place in places.items())
        (self.folder / "items.jsonl").write_text("\n".join(lines))
        self.run("publish", "items", str(self.folder / "items.jsonl"))

    def query(self, sql: str) -> list[list[object]]:
        return [list(row.values()) for row in json.loads(self.run("query", sql, "--json"))]


def count_requests(requests: Iterable[StoreRequest], root: str) -> Counter[tuple[str, str, int]]:
    """Count requests by kind, place and status; ``root`` is that of the tables, such as ``s3://bucket/lake``.

    The kind is the method, LIST for a listing, or PUT-NEW for a write with a condition. The place is relative to the
    root, with ``N`` for a version and ``*`` for the name of a data file.
    """
    address = urlsplit(root)
    bucket, prefix = address.netloc, address.path.strip("/")
    if address.username:
        bucket = f"{(address.hostname or '').partition('.')[0]}/{address.username}"
    return Counter((*_kind_and_place(request, bucket, prefix), request.status) for request in requests)


def _kind_and_place(request: StoreRequest, bucket: str, prefix: str) -> tuple[str, str]:
    kind, path = request.method, request.path.removeprefix(f"/{bucket}").lstrip("/")
    query = parse_qs(request.query)
    if kind == "GET" and not path:
        kind, path = "LIST", query.get("prefix", [""])[0]
    if request.is_conditional:
        kind = f"{kind}-NEW"
    place = re.sub(r"\d{20}", "N", path.removeprefix(prefix).strip("/"))
    return kind, re.sub(r"[^/]*\.parquet$", "*.parquet", place)


def count_table(counts: Counter[tuple[str, str, int]]) -> str:
    """The counts as lines of text, the largest first."""
    lines = [f"{count:5}  {kind:8} {status}  {place}" for (kind, place, status), count in counts.most_common()]
    return "\n".join([f"{counts.total():5}  in all", *lines])
