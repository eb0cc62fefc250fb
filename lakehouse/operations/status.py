"""The status of a merged table: progress, lag, version, counts, changes of its declaration; also as objects of JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sink import Outlet
from lakehouse.declaration.snapshot import CHECK, differences, facts_of
from lakehouse.errors import DataLossError, DeclarationError, LakehouseError, TopicError
from lakehouse.exports.progress import OutletStatus
from lakehouse.ingest.gaps import plan_table
from lakehouse.ingest.rejections import RejectionCounts, count_rejected, find_lost_rejections
from lakehouse.ingest.topics import known_topics, split_by_topic, with_start
from lakehouse.ledger.accounting import figures
from lakehouse.ledger.commit_infos import committed_at, left_out_by_stream
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table, read_history
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import HeldPart, Progress, Range, SourceState, describe_held, source_words
from lakehouse.ledger.versions import count_rows
from lakehouse.operations.readers import DerivedStatus, derived_status
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.sinks.progress import outlet_status
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.layout import DECLARATION_PROPERTY
from lakehouse.storage.table_context import merged_ledger

_LOOK_LIMIT = 1.5  # seconds for the broker
Info = Mapping[str, Any]


@dataclass(frozen=True)
class PartitionStatus:
    """One partition: the next offset to merge, the offsets in the source, and the lag; ``None`` if unknown.

    If the source is a folder, these are numbers of files.

    If the progress is of another topic, or is after the end, ``lag`` counts all records that the broker has. ``topic``
    is the topic if the table reads several, else ``None``.
    """

    partition: int
    progress: int | None
    earliest: int | None
    end: int | None
    lag: int | None
    topic: str | None = None


@dataclass(frozen=True)
class Status:
    """The status of one merged table; ``problem`` is a sentence that says why the state of the topic is unknown.

    ``loss`` says which records were lost before they were merged, and what to do. No merge continues until then, unless
    the declaration accepts the loss. ``loss`` is ``None`` if no records are lost, or if this is unknown.
    ``source_text`` is what the table reads, and ``position_noun`` what is counted in it.
    ``rejected`` is ``None`` if the rejected records cannot be counted without Spark. ``exports`` are those of its
    tables. ``held_parts`` is what the source has, and no merge reads yet. ``unaccepted`` says why no sensor merges.
    """

    table: str
    uri: str
    bootstrap_servers: str | None
    problem: str | None
    loss: str | None
    partitions: tuple[PartitionStatus, ...]
    rows: int
    ledger: Ledger
    rejected: RejectionCounts | None
    derived: tuple[DerivedStatus, ...]
    source_text: str = ""
    position_noun: str = "offset"
    exports: tuple[OutletStatus, ...] = ()
    held_parts: tuple[HeldPart, ...] = ()
    unaccepted: str | None = None

    @property
    def lag(self) -> int | None:
        """Offsets still to merge, over all partitions; ``None`` if the broker does not answer."""
        return sum(part.lag or 0 for part in self.partitions) if self.problem is None else None

    @property
    def lags(self) -> dict[str, int | None]:
        """Offsets still to merge of each topic, ``None`` if that is unknown; empty if the table reads one alone."""
        parts = [part for part in self.partitions if part.topic is not None]
        unknown_topics = {part.topic for part in parts if part.end is None}
        lags: dict[str, int | None] = {}
        for part in parts:
            lags[part.topic or ""] = (lags.get(part.topic or "") or 0) + (part.lag or 0)
        return {name: None if name in unknown_topics else lag for name, lag in lags.items()}

    @property
    def is_up_to_date(self) -> bool:
        """Whether all records are merged, none is lost or held, commits add up, and no derived table or export lags."""
        derived_lags = any(table.lags for table in self.derived) or not all(e.is_up_to_date for e in self.exports)
        is_merged = self.lag == 0 and self.loss is None and not self.held_parts
        return is_merged and not derived_lags and not self.ledger.unaccounted


def status(settings: Settings, table: StreamTable, outlets: Sequence[Outlet] = ()) -> Status:
    """Read the state of the topic and the table's log. An unavailable broker is part of the status, not an error.

    ``outlets`` are those whose state is part of it.
    """
    ledger = merged_ledger(settings, table)
    servers, parts, problem = _find_parts(settings, table)
    partitions: list[PartitionStatus] = []
    losses: list[str] = []
    held_parts: list[HeldPart] = []
    is_silent = problem is not None
    for part in parts:
        topic_ledger = merged_ledger(settings, part)
        state = None
        try:
            if not is_silent:
                state = source_of(settings, part).preview_state(topic_ledger, _LOOK_LIMIT)
                state = with_start(settings, part, topic_ledger, state, _LOOK_LIMIT)
        except LakehouseError as error:
            problem = problem or str(error)
            is_silent = not isinstance(error, TopicError)  # another topic may exist
        losses += filter(None, [_loss(part, state, topic_ledger) if state else None])
        held_parts += state.held_parts if state else ()
        partitions += _partitions(state, topic_ledger.progress, part.topic if table.topics else None)
    losses += filter(None, [str(find_lost_rejections(settings, table, ledger) or "")])
    return Status(
        table=table.name,
        uri=ledger.uri,
        bootstrap_servers=servers,
        problem=problem,
        loss="; ".join(losses) or None,
        partitions=tuple(partitions),
        rows=count_rows(ledger.uri),
        ledger=ledger,
        rejected=count_rejected(settings, table, ledger),
        derived=derived_status(settings, table, ledger),
        source_text=table.topic_text,
        position_noun=table.position_noun,
        exports=tuple(outlet_status(settings, outlet, table.upkeep.retention) for outlet in outlets),
        held_parts=tuple(held_parts),
        unaccepted=reason_to_accept(table, find_unaccepted(settings, table)),
    )


def _find_parts(settings: Settings, table: StreamTable) -> tuple[str | None, Sequence[StreamTable], str | None]:
    """Return the address of the broker, the declaration of each topic, and a problem, with the known topics then."""
    servers = None
    try:
        servers = None if not table.has_topics else bootstrap_servers(settings)
        return servers, split_by_topic(settings, table, _LOOK_LIMIT), None
    except LakehouseError as error:
        return servers, known_topics(settings, table), str(error)


def _loss(table: StreamTable, state: SourceState, ledger: Ledger) -> str | None:
    try:
        gap = plan_table(table, state, ledger, Bounds()).gap
    except (DataLossError, DeclarationError) as error:
        return str(error)
    if not gap:
        return None
    return f"{'; '.join(gap.shown_facts)}. {table.name} accepts this loss: the next merge records it and continues."


def _partitions(state: SourceState | None, progress: Progress | None, topic: str | None) -> list[PartitionStatus]:
    merged = progress.positions if progress else {}
    if state is None:
        return [PartitionStatus(p, position, None, None, None, topic) for p, position in sorted(merged.items())]
    starts = {p: max(first, state.starts.get(p, first)) for p, first in state.earliest.items()}
    if progress and progress.source == state.source:
        starts = {p: progress.next_position(p) for p in state.earliest}
    partitions = (_partition(p, state, merged.get(p), starts.get(p)) for p in sorted({*state.end, *merged}))
    return [replace(part, topic=topic) for part in partitions]


def _partition(partition: int, state: SourceState, progress: int | None, start: int | None) -> PartitionStatus:
    earliest, end = state.earliest.get(partition), state.end.get(partition)
    lag = None
    if end is not None and start is not None and earliest is not None:
        lag = end - (start if start <= end else earliest)
    count = source_words(state.source).count
    progress, earliest, end, lag = (
        None if position is None else count(position) for position in (progress, earliest, end, lag)
    )
    return PartitionStatus(partition, progress, earliest, end, lag)


def status_fields(table_status: Status) -> dict[str, Any]:
    """Return the status of a table, as ``lakehouse status --json`` prints it."""
    ledger = table_status.ledger
    return {
        "table": table_status.table,
        "uri": table_status.uri,
        "exists": ledger.exists,
        "version": ledger.version if ledger.exists else None,
        "rows": table_status.rows,
        "bootstrap_servers": table_status.bootstrap_servers,
        "source": table_status.source_text,
        "counted": table_status.position_noun,
        "problem": table_status.problem,
        "loss": table_status.loss,
        "unaccepted": table_status.unaccepted,
        "lag": table_status.lag,
        "held": sum(part.count for part in table_status.held_parts),
        "held_text": describe_held(table_status.held_parts, table_status.position_noun),
        "left_out": left_out_fields(ledger),
        "partitions": [partition_fields(part) for part in table_status.partitions],
        **({"lag_of_topics": table_status.lags} if table_status.lags else {}),
        "last_commit": commit_fields(ledger.newest) if ledger.newest else None,
        "totals": ledger.totals.model_dump(),
        "rejected": asdict(table_status.rejected) if table_status.rejected else None,
        "derived": [asdict(derived) for derived in table_status.derived],
        **({"exports": [asdict(export) for export in table_status.exports]} if table_status.exports else {}),
        "unaccounted": list(ledger.unaccounted),
        "up_to_date": table_status.is_up_to_date,
        "foreign": [asdict(foreign) for foreign in ledger.foreign],
    }


def commit_fields(entry: Entry) -> dict[str, Any]:
    """Return what a commit records, and what Delta counted."""
    commit = entry.commit
    return {
        "version": entry.version,
        "committed_at": entry.committed_at,
        "kind": commit.kind,
        "number": commit.number,
        "topic": commit.stream,
        **figures(entry),
        "ranges": range_fields(part for part in commit.ranges if part.span),
        "gap": range_fields(commit.gap),
        "left_out": range_fields(commit.left_out if commit.kind == "start" else ()),
        "accepted": list(commit.accepted),
        "reason": commit.reason,
        "run": commit.run,
    }


def range_fields(ranges: Iterable[Range]) -> dict[int, list[int]]:
    """Return the start and the end of ranges by their partition."""
    return {part.partition: [part.start, part.end] for part in ranges}


def partition_fields(part: PartitionStatus) -> dict[str, Any]:
    """Return the figures of a partition, with its topic if the table reads several."""
    fields = asdict(part)
    topic = fields.pop("topic")
    return fields if topic is None else {"topic": topic, **fields}


def left_out_fields(ledger: Ledger) -> dict[Any, Any]:
    """Return what the table left out, by partition; by topic and partition if it reads several topics."""
    commit = ledger.newest.commit if ledger.newest else None
    parts = {name: range_fields(ranges) for name, ranges in left_out_by_stream(commit).items()}
    return parts if commit and commit.other_sources else next(iter(parts.values()), {})


def find_unaccepted(settings: Settings, table: StreamTable) -> list[str] | None:
    """What no sensor does to a merged table until a person accepts it: changes of its columns, and of what is read.

    Rows that are merged meanwhile would keep such a change, also if the declaration is changed back. A merge by a
    person does it, and so does ``accept_declaration``. ``None`` means a new table, which its first merge creates. Empty
    if declarations are reviewed before they are deployed. Starts no Spark.
    """
    if settings.reviewed:
        return []
    stored_table = open_table(settings.table_uri(table.name))
    if stored_table is None:
        return None
    former = stored_table.metadata().configuration.get(DECLARATION_PROPERTY, "")
    changes = differences(former, facts_of(table)) if former else ()
    return [text for part, text in changes if not part.startswith(CHECK)]


def reason_to_accept(table: StreamTable, changes: Sequence[str] | None) -> str | None:
    """Why no sensor merges into a table, with the command for a person; ``None`` if nothing waits to be accepted."""
    if changes is None:
        command = f"Run: lakehouse merge {table.name}, or choose Materialize in Dagster"
        return f"{table.name} is new: it waits for its first merge, by a person. {command}."
    if not changes:
        return None
    what = f"The declaration of {table.name} changed, and waits until a person accepts it: {'; '.join(changes)}"
    return f"{what}. Run: lakehouse plan {table.name} --accept"


@dataclass(frozen=True)
class Redeclaration:
    """A version that was written with a changed declaration, and the differences from the declaration before."""

    version: int
    committed_at: datetime
    changes: tuple[str, ...]


def list_redeclarations(settings: Settings, table: StreamTable) -> list[Redeclaration]:
    """All changes of the declaration in the table's history, oldest first; empty if the table does not exist."""
    uri = settings.table_uri(table.name)
    return list(_changes(read_history(uri))) if open_table(uri) else []


def _changes(history: Sequence[Info]) -> Iterator[Redeclaration]:
    for info, previous_declaration, current_declaration in _declarations(history):
        pairs = differences(previous_declaration, current_declaration) if previous_declaration else ()
        if changes := tuple(text for _, text in pairs):
            yield Redeclaration(int(info["version"]), committed_at(info), changes)


def _declarations(history: Sequence[Info]) -> Iterator[tuple[Info, str, str]]:
    """The commits that record a declaration, oldest first, each with the previous and the current declaration."""
    declaration, declarations_by_version = "", dict[int, str]()
    for info in reversed(history):
        if recorded_declaration := _recorded_declaration(info):
            yield info, declaration, recorded_declaration
            declaration = recorded_declaration
        elif info.get("operation") == "RESTORE":
            declaration = declarations_by_version.get(_restored_version(info), "")
        declarations_by_version[int(info["version"])] = declaration


def _restored_version(info: Info) -> int:
    """The version that a RESTORE restored; -1 if it was given a timestamp."""
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else -1


def _recorded_declaration(info: Info) -> str:
    """The declaration that a commit records; empty if it records none."""
    parameter = (info.get("operationParameters") or {}).get("properties")
    try:
        properties = json.loads(parameter) if isinstance(parameter, str) else parameter
    except ValueError:
        return ""
    return str(properties.get(DECLARATION_PROPERTY, "")) if isinstance(properties, dict) else ""
