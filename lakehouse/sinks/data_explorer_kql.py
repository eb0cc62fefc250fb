"""The commands and queries of a sink in Azure Data Explorer. Makes text; no input or output."""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakehouse.ledger.commit_values import Consumed

PROGRESS = "lakehouse_progress"
SENDING, COMPLETE = "sending", "complete"
OWN_COLUMNS = {"_key": "string", "_digest": "string", "_version": "long", "_is_deleted": "bool", "_nulls": "int"}
_LONGS = ("ordinal", "since", "version", "part_bytes")
_KEPT_TAGS = json.dumps([{"TagPrefix": "ingest-by:", "RetentionPeriod": "30.00:00:00"}])


class Range(NamedTuple):
    """A row of the progress: the changes after ``since`` up to ``version``, or without it all rows of that version.

    ``ordinal`` counts the ranges of a target, and ``columns`` has the columns and their types, as JSON. A part ends
    after ``part_bytes``, so each run divides the range equally. ``commit_id`` is empty if it is unknown.
    """

    target: str
    ordinal: int
    state: str
    table_id: str
    since: int | None
    version: int
    commit_id: str
    columns: str
    part_bytes: int
    run: str

    @property
    def consumed(self) -> Consumed:
        """The version that the target has after it."""
        return Consumed(table_id=self.table_id, version=self.version, commit=self.commit_id or None)

    @property
    def table(self) -> str:
        """The table into which its parts go: that of the sink, or a new one for all rows."""
        return self.target if self.since is not None else f"{self.target}_lakehouse_{self.ordinal}"

    @property
    def tag_prefix(self) -> str:
        """What the tags of its parts begin with, before the number of the part."""
        return f"{self.table_id}:{'all' if self.since is None else self.since}:{self.version}:"


CREATE_PROGRESS = (
    f".create-merge table {PROGRESS} ("
    + ", ".join(f"{name}:{'long' if name in _LONGS else 'string'}" for name in Range._fields)
    + ", recorded_at:datetime)"
)
KEEP_PROGRESS = f".alter-merge table {PROGRESS} policy retention softdelete = 36500d"
KEEP_TAGS = f".alter table {PROGRESS} policy extent_tags_retention {json.dumps(_KEPT_TAGS)}"


def text(value: str) -> str:
    """Return a text as a literal."""
    return json.dumps(value, ensure_ascii=False)


def entity(name: str) -> str:
    """Return the name of a table or a column."""
    return f"['{name}']"


def append_progress(row: Range) -> str:
    """Add a row to the progress, unless there is one of its ordinal and state."""
    literals = [f"long({value})" if name in _LONGS else text(value) for name, value in _texts(row).items()]
    tag = f"{row.target}:{row.ordinal}:{row.state}"
    options = f"tags={text(json.dumps([f'ingest-by:{tag}']))}, ingestIfNotExists={text(json.dumps([tag]))}"
    values = ", ".join(f"{name}={literal}" for name, literal in zip(Range._fields, literals, strict=True))
    return f".append {PROGRESS} with ({options}) <| print {values}, recorded_at=now()"


def _texts(row: Range) -> dict[str, str]:
    return {name: "null" if value is None else str(value) for name, value in row._asdict().items()}


def newest_progress(target: str, generation: int) -> str:
    """Select the newest row of each state, and how often one was recorded since the table was created.

    Two runs may record an ordinal at once if the service does not check tags and append in one step.
    """
    rows = f"{PROGRESS} | where target == {text(target)}"
    ranges = f"let ranges = {rows} | summarize arg_min(recorded_at, *), copies=count() by ordinal, state"
    copies = f"toscalar(ranges | where ordinal >= {generation} | summarize max(copies))"
    return f"{ranges}; ranges | summarize arg_max(ordinal, *) by state | extend copies={copies}"


def show_tables(target: str) -> str:
    """Show which of the target, its tables for all rows and the progress exist, and for what they were created."""
    names = f'TableName in ({text(target)}, {text(PROGRESS)}) or TableName startswith_cs "{target}_lakehouse_"'
    return f".show tables | where {names} | project TableName, DocString"


def create_table(name: str, sink: str, ordinal: int, types: Mapping[str, str]) -> list[str]:
    """Create a table for all rows, if it does not exist; its text, and its mapping, name the range.

    Rows, and the tags of parts, are kept for longer than the defaults of a database may keep them, but nothing that was
    dropped can be recovered, since it may have been erased.
    """
    definitions = ", ".join(f"{entity(column)}:{type_}" for column, type_ in types.items())
    mapping = [{"column": column, "Properties": {"Path": f"$['{column}']"}} for column in types]
    table, doc = entity(name), f"lakehouse:{sink}:{ordinal}"
    return [
        f".create-merge table {table} ({definitions}) with (docstring={text(doc)})",
        f".create-or-alter table {table} ingestion json mapping {text(mapping_name(ordinal))} "
        f"{text(json.dumps(mapping))}",
        f".alter-merge table {table} policy retention softdelete = 36500d recoverability = disabled",
        f".alter table {table} policy extent_tags_retention {text(_KEPT_TAGS)}",
    ]


def mapping_name(ordinal: int) -> str:
    """Return the name of the mapping of a table that was created for a range."""
    return f"lakehouse_{ordinal}"


def show_parts(range_: Range) -> str:
    """Show the extents that have parts of a range."""
    return f".show table {entity(range_.table)} extents where tags contains {text(f'ingest-by:{range_.tag_prefix}')}"


def show_failures(table: str) -> str:
    """Show what the service could not ingest for good."""
    condition = f'Table == {text(table)} and FailureKind == "Permanent" and FailedOn > ago(1d)'
    return f".show ingestion failures | where {condition} | project IngestionSourcePath, Details"


def count_rows(range_: Range) -> str:
    """Count the rows of a range in its table."""
    since = -1 if range_.since is None else range_.since
    return f"{entity(range_.table)} | where _version > {since} and _version <= {range_.version} | count"


def rename(range_: Range, *, replaces: bool) -> str:
    """Give a table with all rows the name of the target. It fails if that was done already, by whomever."""
    new, target = entity(range_.table), entity(range_.target)
    if not replaces:
        return f".rename table {new} to {target}"
    return f".rename tables {entity(f'{range_.table}_old')} = {target}, {target} = {new}"


def show_views(target: str) -> str:
    """Show the materialized views of a table."""
    return f".show materialized-views | where SourceTable == {text(target)} | project Name"


def drop_tables(names: Iterable[str]) -> str:
    """Drop tables that may exist."""
    return f".drop tables ({', '.join(map(entity, names))}) ifexists"


def current_digests(target: str, version: int, page: tuple[int, int]) -> str:
    """Select the key and the digest of each row as of a version, of one of so many pages."""
    number, pages = page
    rows = f"{entity(target)} | where _version <= {version} and hash(_key, {pages}) == {number}"
    newest = "summarize arg_max(_version, _digest, _is_deleted) by _key | where not(_is_deleted)"
    return f"set notruncation; {rows} | {newest} | project _key, _digest"


def count_other_nulls(target: str, version: int, types: Mapping[str, str]) -> str:
    """Count the current rows in which other values are NULL than were sent: the service replaces what does not fit."""
    nulls = "+".join(["0", *(f"toint(isnull({entity(name)}))" for name in nullable_columns(types))])
    rows = f"{entity(target)} | where _version <= {version} | summarize arg_max(_version, *) by _key"
    return f"{rows} | where not(_is_deleted) and _nulls != {nulls} | count"


def nullable_columns(types: Mapping[str, str]) -> list[str]:
    """The columns of a sink that can be NULL in the service; a text cannot."""
    return [name for name, type_ in types.items() if type_ != "string" and name not in OWN_COLUMNS]


def statements(target: str, sink: str, types: Mapping[str, str], uri: str) -> list[str]:
    """What an administrator and the first run do, and ways to read the rows; comments begin with //."""
    table, view, view_name = map(entity, (target, f"{target}_current", f"{target}_newest"))
    newest = f"{table} | summarize arg_max(_version, *) by _key"
    definition = f".create-or-alter function with (view=true) {view}() {{ {newest} | where not(_is_deleted) }}"
    return [
        "// Grants, by an administrator of DATABASE:",
        ".add database DATABASE users ('aadapp=CLIENT_ID;TENANT_ID')",
        ".add database DATABASE ingestors ('aadapp=CLIENT_ID;TENANT_ID')",
        ".add database DATABASE monitors ('aadapp=CLIENT_ID;TENANT_ID')",
        ".add database DATABASE viewers ('aadgroup=READERS;TENANT_ID')",
        "// The first run:",
        CREATE_PROGRESS,
        KEEP_PROGRESS,
        KEEP_TAGS,
        *create_table(f"{target}_lakehouse_1", sink, 1, types),
        f".rename table {entity(f'{target}_lakehouse_1')} to {table}",
        "// The current rows:",
        definition,
        "// Faster. A run that sends all rows refuses to do so while the view exists: drop it, and create it again:",
        f".create async materialized-view with (backfill=true) {view_name} on table {table} {{ {newest} }}",
        "// Without a sink and a copy, but slower: the newest version, with the columns that the table has now.",
        "// The cluster has to reach the storage, and its identity needs rights there, and AllDatabasesAdmin:",
        f".create-or-alter external table {entity(f'{target}_files')} kind=delta (h@'{uri};managed_identity=system')",
    ]
