"""A double of Azure Data Explorer over HTTP: the commands and queries of sinks, blobs, the queue and its ingestion.

It does what the documents of the service say. A message is ingested when somebody looked for its part, or when a test
says so. Any text that it does not know is refused, and is an error of the test.
"""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote

_NAME = r"\['([^']+)'\]"
_TEXT = r'("(?:[^"\\]|\\.)*")'
_ACCEPTED = (
    '<?xml version="1.0"?><QueueMessagesList><QueueMessage><MessageId>1</MessageId></QueueMessage></QueueMessagesList>'
)
Row = dict[str, Any]
Command = tuple[str, Callable[..., list[Row]]]


class RefusedError(Exception):
    """The service refuses a command."""


@dataclass
class Extent:
    """Rows that were ingested together, and their tags."""

    tags: list[str]
    rows: list[Row]


@dataclass
class Table:
    """A table: its columns, its text, its mappings and its extents."""

    columns: dict[str, str]
    doc: str = ""
    mappings: dict[str, dict[str, str]] = field(default_factory=dict)
    extents: list[Extent] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for extent in self.extents for row in extent.rows]

    def has_tag(self, tag: str) -> bool:
        return any(f"ingest-by:{tag}" in extent.tags for extent in self.extents)


class DataExplorer:
    """The service. ``requests`` has the text of each request; ``cut_after`` is the number of requests that it answers.

    ``answers`` are the status codes of the next requests, 200 if they are as usual. ``reorders`` messages, and
    ``repeats`` each of them, and ``ingests`` when somebody looked for parts. If it is not ``is_atomic``, it checks no
    tag of the progress. ``views`` are materialized views of each table.
    """

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.blobs: dict[str, bytes] = {}
        self.messages: list[Row] = []
        self.failures: list[Row] = []
        self.requests: list[str] = []
        self.unknown: list[str] = []
        self.answers: list[int] = []
        self.cut_after: int | None = None
        self.executes_last = False
        self.repeats = self.reorders = False
        self.ingests = True
        self.is_atomic = True
        self.views: list[str] = []
        self.before_request: Callable[[str], None] = lambda _: None
        self.port = 0
        self._lock = Lock()
        self._commands = [*self._definitions(), *self._looks()]

    def _definitions(self) -> list[Command]:
        """What the service does for resources, tables and their policies."""
        return [
            (r"\.get ingestion resources", self._resources),
            (r"\.get kusto identity token", lambda: [{"AuthorizationContext": "token"}]),
            (
                rf"\.show tables \| where TableName in \({_TEXT}, {_TEXT}\) or TableName startswith_cs {_TEXT}"
                r" \| project TableName, DocString",
                self._show,
            ),
            (r"\.create-merge table (lakehouse_progress) \((.*)\)", self._create),
            (rf"\.create-merge table {_NAME} \((.*)\) with \(docstring={_TEXT}\)", self._create),
            (rf"\.create-or-alter table {_NAME} ingestion json mapping {_TEXT} {_TEXT}", self._map),
            (r"\.alter-merge table lakehouse_progress policy retention softdelete = 36500d", list),
            (
                rf"\.alter-merge table {_NAME} policy retention softdelete = 36500d recoverability = disabled",
                self._policy,
            ),
            (rf"\.alter table {_NAME} policy extent_tags_retention {_TEXT}", self._policy),
        ]

    def _looks(self) -> list[Command]:
        """What it does for the progress, parts and rows."""
        return [
            (
                rf"\.append lakehouse_progress with \(tags={_TEXT}, ingestIfNotExists={_TEXT}\) <\| print (.*),"
                r" recorded_at=now\(\)",
                self._append,
            ),
            (rf"\.show table {_NAME} extents where tags contains {_TEXT}", self._extents),
            (
                rf'\.show ingestion failures \| where Table == {_TEXT} and FailureKind == "Permanent" and FailedOn >'
                r" ago\(1d\) \| project IngestionSourcePath, Details",
                lambda name: [row for row in self.failures if row["Table"] == json.loads(name)],
            ),
            (rf"\.rename table {_NAME} to {_NAME}", lambda new, name: self._rename((name, new))),
            (
                rf"\.rename tables {_NAME} = {_NAME}, {_NAME} = {_NAME}",
                lambda old, name, target, new: self._rename((old, name), (target, new)),
            ),
            (r"\.drop tables \((.*)\) ifexists", self._drop),
            (
                rf"let ranges = lakehouse_progress \| where target == {_TEXT} \| summarize arg_min\(recorded_at, \*\),"
                r" copies=count\(\) by ordinal, state; ranges \| summarize arg_max\(ordinal, \*\) by state \| extend"
                r" copies=toscalar\(ranges \| where ordinal >= (\d+) \| summarize max\(copies\)\)",
                self._newest_progress,
            ),
            (rf"\.alter table (lakehouse_progress) policy extent_tags_retention {_TEXT}", self._policy),
            (rf"\.show materialized-views \| where SourceTable == {_TEXT} \| project Name", self._views),
            (
                rf"{_NAME} \| where _version <= (\d+) \| summarize arg_max\(_version, \*\) by _key \| where"
                r" not\(_is_deleted\) and _nulls != 0((?:\+toint\(isnull\(\['[^']+'\]\)\))*) \| count",
                self._other_nulls,
            ),
            (rf"{_NAME} \| where _version > (-?\d+) and _version <= (\d+) \| count", self._count),
            (rf"{_NAME} \| count", lambda name: [{"Count": len(self._table(name).rows)}]),
            (
                rf"set notruncation; {_NAME} \| where _version <= (\d+) and hash\(_key, (\d+)\) == (\d+) \| summarize"
                r" arg_max\(_version, _digest, _is_deleted\) by _key \| where not\(_is_deleted\) \| project _key,"
                r" _digest",
                self._digests,
            ),
        ]

    def current_rows(self, name: str) -> dict[str, Row]:
        """The newest change of each key that is not a delete, as readers select it."""
        newest: dict[str, Row] = {}
        for row in self.tables[name].rows:
            if row["_key"] not in newest or row["_version"] > newest[row["_key"]]["_version"]:
                newest[row["_key"]] = row
        return {key: row for key, row in newest.items() if not row["_is_deleted"]}

    def ingest(self) -> None:
        """Ingest what is queued, each message alone."""
        messages, self.messages = self.messages * (2 if self.repeats else 1), []
        for message in reversed(messages) if self.reorders else messages:
            self._ingest(message)

    def execute(self, text: str) -> list[Row]:
        """Run a command or a query; ``RefusedError`` if it is not one of those that are known."""
        for pattern, run in self._commands:
            match = re.fullmatch(pattern, text, re.DOTALL)
            if match:
                return run(*match.groups())
        self.unknown.append(text)
        raise RefusedError(f"Syntax error: {text[:100]}")

    def admit(self, text: str) -> int:
        """Count a request; return the status that it gets, 0 if the connection is cut."""
        self.before_request(text)
        with self._lock:
            self.requests.append(text)
            if self.cut_after is not None and len(self.requests) > self.cut_after:
                return 0
            return self.answers.pop(0) if self.answers else 200

    def _table(self, name: str) -> Table:
        if name not in self.tables:
            raise RefusedError(f"Semantic error: the table {name} was not found_rows")
        return self.tables[name]

    def _ingest(self, message: Row) -> None:
        options, name = message["AdditionalProperties"], message["TableName"]
        tags, unless = json.loads(options["tags"]), json.loads(options["ingestIfNotExists"])
        assert (len(tags), tags) == (1, [f"ingest-by:{unless[0]}"]), "a part has one tag, and asks for it"
        assert message["FlushImmediately"] and options["format"] == "json" and options["ingestionMappingType"] == "Json"
        table = self.tables.get(name)
        mapping = None if table is None else table.mappings.get(options["ingestionMappingReference"])
        if table is None or mapping is None:
            path, kind = message["BlobPath"].partition("?")[0], "Table" if table is None else "MappingReference"
            details = f"BadRequest_{kind}WasNotFound"
            self.failures.append({"Table": name, "IngestionSourcePath": path, "Details": details})
        elif not table.has_tag(unless[0]):
            lines = gzip.decompress(self.blobs[message["BlobPath"].partition("?")[0]]).splitlines()
            table.extents.append(Extent(tags, [_typed(json.loads(line), mapping, table.columns) for line in lines]))

    def _resources(self) -> list[Row]:
        root = f"http://127.0.0.1:{self.port}"
        kinds = ["TempStorage", "SecuredReadyForAggregationQueue", "FailedIngestionsQueue"]
        kinds += ["SuccessfulIngestionsQueue", "IngestionsStatusTable", "TempStorage"]
        return [
            {"ResourceTypeName": kind, "StorageRoot": f"{root}/{kind.lower()}{number}?sig=key-of-storage"}
            for number, kind in enumerate(kinds)
        ]

    def _show(self, target: str, progress: str, prefix: str) -> list[Row]:
        names, start = {json.loads(target), json.loads(progress)}, json.loads(prefix)
        found_rows = [name for name in self.tables if name in names or name.startswith(start)]
        return [{"TableName": name, "DocString": self.tables[name].doc} for name in found_rows]

    def _create(self, name: str, columns: str, doc: str = '""') -> list[Row]:
        types = {column.strip("[']"): type_ for column, _, type_ in (c.rpartition(":") for c in columns.split(", "))}
        self.tables.setdefault(name, Table(types, json.loads(doc)))
        return []

    def _map(self, name: str, mapping: str, columns: str) -> list[Row]:
        paths = {column["column"]: column["Properties"]["Path"] for column in json.loads(json.loads(columns))}
        self._table(name).mappings[json.loads(mapping)] = {column: path[3:-2] for column, path in paths.items()}
        return []

    def _policy(self, name: str, policy: str = '"[]"') -> list[Row]:
        json.loads(json.loads(policy))
        self._table(name)
        return []

    def _append(self, tags: str, unless: str, values: str) -> list[Row]:
        table = self._table("lakehouse_progress")
        (tag,) = json.loads(json.loads(unless))
        assert json.loads(json.loads(tags)) == [f"ingest-by:{tag}"]
        if self.is_atomic and table.has_tag(tag):
            raise RefusedError(f"An extent has the tag {tag}")
        row: Row = {"recorded_at": datetime.now(UTC).isoformat()}
        for name, number, text in re.findall(rf"(\w+)=(?:long\((\S+?)\)|{_TEXT})", values):
            row[name] = json.loads(text or number)
        assert row.keys() == table.columns.keys()
        table.extents.append(Extent([f"ingest-by:{tag}"], [row]))
        return []

    def _newest_progress(self, target: str, generation: str) -> list[Row]:
        rows = [row for row in self._table("lakehouse_progress").rows if row["target"] == json.loads(target)]
        ranges: dict[tuple[int, str], list[Row]] = {}
        for row in rows:
            ranges.setdefault((row["ordinal"], row["state"]), []).append(row)
        copies = max((len(rivals) for (number, _), rivals in ranges.items() if number >= int(generation)), default=None)
        newest = {state: max(number for number, own in ranges if own == state) for _, state in ranges}
        first = (min(ranges[number, state], key=lambda row: row["recorded_at"]) for state, number in newest.items())
        return [{**row, "copies": copies} for row in first]

    def _views(self, name: str) -> list[Row]:
        return [{"Name": view} for view in self.views if json.loads(name) in self.tables]

    def _other_nulls(self, name: str, version: str, columns: str) -> list[Row]:
        assert all(row["_version"] <= int(version) for row in self._table(name).rows)
        names = re.findall(_NAME, columns)
        rows = self.current_rows(name).values()
        return [{"Count": sum(row["_nulls"] != sum(row[column] is None for column in names) for row in rows)}]

    def _extents(self, name: str, tag: str) -> list[Row]:
        found_rows = [
            extent.tags for extent in self._table(name).extents if any(json.loads(tag) in t for t in extent.tags)
        ]
        if self.ingests:
            self.ingest()  # the next look shows it
        return [{"Tags": "\r\n".join(tags)} for tags in found_rows]

    def _rename(self, *names: tuple[str, str]) -> list[Row]:
        tables = [self._table(name) for _, name in names]
        if missing := {name for name, _ in names} & (self.tables.keys() - {name for _, name in names}):
            raise RefusedError(f"Semantic error: the table {missing.pop()} exists")
        for _, name in names:
            del self.tables[name]
        self.tables |= {name: table for (name, _), table in zip(names, tables, strict=True)}
        return []

    def _drop(self, names: str) -> list[Row]:
        for name in re.findall(_NAME, names):
            self.tables.pop(name, None)
        return []

    def _count(self, name: str, since: str, version: str) -> list[Row]:
        return [{"Count": sum(int(since) < row["_version"] <= int(version) for row in self._table(name).rows)}]

    def _digests(self, name: str, version: str, pages: str, page: str) -> list[Row]:
        assert all(row["_version"] <= int(version) for row in self._table(name).rows)
        found_rows = self.current_rows(name).items()
        return [
            {"_key": key, "_digest": row["_digest"]} for key, row in found_rows if len(key) % int(pages) == int(page)
        ]


def _typed(line: Row, mapping: dict[str, str], columns: dict[str, str]) -> Row:
    """The values of a line in the types of the columns; the service would make NULL of another value."""
    row = {column: line.pop(path, None) for column, path in mapping.items()}
    assert not line, f"no column holds {line}"
    kinds: dict[str, Any] = {
        "string": str,
        "long": int,
        "int": int,
        "bool": bool,
        "real": (int, float),
        "decimal": str,
        "datetime": str,
    }
    for name, value in row.items():
        if columns[name] == "decimal" and value is not None:
            assert re.fullmatch(r"-?\d+(\.\d+)?", value), f"{name} has no plain decimal"
        assert value is None or isinstance(value, kinds.get(columns[name], object)), f"{name} cannot hold {value!r}"
        if columns[name] == "datetime" and value is not None:
            datetime.fromisoformat(value)
    return row


class _Handler(BaseHTTPRequestHandler):
    service: DataExplorer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for an answer

    def do_POST(self) -> None:
        body, path = self._body(), self.path.partition("?")[0]
        if not path.startswith("/v"):
            properties = json.loads(b64decode(re.findall(rb"<MessageText>(.*)</MessageText>", body)[0]))
            self._respond("queue", lambda: self.service.messages.append(properties))
            return
        text = json.loads(body)["csl"]
        self._respond(text, lambda: self._answer(self.service.execute(text), path))

    def do_PUT(self) -> None:
        body, path = self._body(), f"http://127.0.0.1:{self.service.port}{unquote(self.path.partition('?')[0])}"
        self._respond("blob", lambda: self.service.blobs.__setitem__(path, body))

    def _respond(self, text: str, run: Callable[[], Any]) -> None:
        status = self.service.admit(text)
        is_last = self.service.cut_after == len(self.service.requests) - 1
        answer: Any = {"error": {"code": "Busy", "message": "busy", "@message": f"status {status}"}}
        if status == 200 or (status == 0 and is_last and self.service.executes_last):
            try:
                answer = run()
            except RefusedError as error:
                status, answer = 400, {"error": {"code": "BadRequest", "message": "", "@message": str(error)}}
        if status == 0:
            self.close_connection = True
            return
        is_xml = text in ("queue", "blob")
        data = (_ACCEPTED if text == "queue" else "").encode() if is_xml else json.dumps(answer).encode()
        self.send_response(201 if is_xml and status == 200 else status)
        self.send_header("Content-Type", "application/xml" if is_xml else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, rows: list[Row], path: str) -> Any:
        names = [*rows[0]] if rows else ["Empty"]
        types = {name: "long" if rows and isinstance(rows[0][name], int) else "string" for name in names}
        columns = [{"ColumnName": name, "ColumnType": type_, "DataType": ""} for name, type_ in types.items()]
        table = {"TableName": "Table_0", "Columns": columns, "Rows": [[row[name] for name in names] for row in rows]}
        if path == "/v1/rest/mgmt":
            return {"Tables": [table]}
        return [{"FrameType": "DataTable", "TableId": 1, "TableKind": "PrimaryResult", **table}]

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running_data_explorer() -> Iterator[DataExplorer]:
    """Run the double on a free port of this machine."""
    service = DataExplorer()
    handler = type("Handler", (_Handler,), {"service": service})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        service.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=[0.01], daemon=True)
        thread.start()
        yield service
        server.shutdown()
        thread.join()
    assert service.unknown == [], "only what a sink sends is known"
