"""Read the commits of a history: their metadata, what Delta counted for them, and the progress of each source.

An older process may meet commits of a newer lakehouse. It must neither take them for commits of another program nor
drop fields that it would have to carry on, so their metadata is unreadable. So is that from before the first release.

Each commit reads one source. ``of_stream`` turns the last commit into one of the source that is read next.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from lakehouse.errors import LedgerError
from lakehouse.ledger.commit_values import OtherSource, ReachedEnds, reached_beyond
from lakehouse.ledger.commits import VERSION, Commit, Entry, Kind, Metrics, Upkeep
from lakehouse.ledger.positions import Positions, Range, SourceId

_APPENDING: Final = ("batch", "derived", "load", "rewrite")
"""The kinds of commits that may append rows; those of all other kinds are a MERGE, or write no row."""
# the names of Spark's Delta, and of deltalake
_APPENDED_ROWS: Final = ("numOutputRows", "num_added_rows")
_MERGED_ROWS: Final = {
    "source_rows": ("numSourceRows", "num_source_rows"),
    "inserted": ("numTargetRowsInserted", "num_target_rows_inserted"),
    "updated": ("numTargetRowsUpdated", "num_target_rows_updated"),
    "deleted": ("numTargetRowsDeleted", "num_target_rows_deleted"),
}
OLDER = "was written by a lakehouse before 0.1.0"
LOAD_AGAIN = (
    "Continue with the lakehouse that wrote it, or load the table again: move aside and keep the folders of all tables"
    " of its declaration, load the base files, and merge. Records that the topic no longer holds, and the recorded"
    " changes, are only in the old folders."
)


@dataclass(frozen=True)
class UnreadableMetadata:
    """Metadata of a lakehouse commit that this process cannot read; ``metadata`` is the version of its form."""

    metadata: int
    problem: str


@lru_cache(maxsize=4096)
def parse_metadata(metadata: str) -> Commit | Upkeep | UnreadableMetadata | None:
    """Parse the metadata of a commit; ``None`` if it is not ours. Cached, since the same history is read repeatedly."""
    try:
        document = json.loads(metadata)
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str) or "metadata" not in document:
        return None
    try:
        return (Upkeep if document["kind"] == "upkeep" else Commit).model_validate(document)
    except ValidationError as error:
        version, first_error = document.get("metadata"), error.errors()[0]
        problem = f"{'.'.join(map(str, first_error['loc']))}: {first_error['msg']}"
        return UnreadableMetadata(version, problem) if isinstance(version, int) else None


def metadata_of(info: Mapping[str, Any]) -> Commit | Upkeep | UnreadableMetadata | None:
    """Return the metadata of a commit of a history; ``None`` if the commit is not ours."""
    return parse_metadata(info.get("userMetadata") or "")


def identity_of(info: Mapping[str, Any]) -> str:
    """Return what distinguishes a commit from another one with the same version: our attempt, else its time."""
    metadata = metadata_of(info)
    return metadata.attempt if isinstance(metadata, Commit) else str(info.get("timestamp"))


def committed_at(info: Mapping[str, Any]) -> datetime:
    """Return the time of a commit of a history, UTC."""
    return datetime.fromtimestamp(int(info.get("timestamp", 0)) / 1000, UTC)


def entry_of(info: Mapping[str, Any]) -> Entry | None:
    """Return a commit of a history as an entry of the ledger; ``None`` if it is not an entry."""
    commit, operation = metadata_of(info), str(info.get("operation"))
    counts = info.get("operationMetrics") or {}
    if not isinstance(commit, Commit) or not _is_operation_of(commit.kind, operation, counts):
        return None
    metrics = _metrics(operation, commit.kind, counts)
    return Entry(int(info["version"]), committed_at(info), commit, metrics)


def _is_operation_of(kind: Kind, operation: str, counts: Mapping[str, Any]) -> bool:
    """Whether lakehouse makes commits of a kind by an operation: others may have copied the metadata."""
    if operation == "WRITE":
        return kind in _APPENDING or not _first_count(counts, _APPENDED_ROWS)
    return operation == "MERGE" and kind != "rewrite"


def _metrics(operation: str, kind: Kind, counts: Mapping[str, Any]) -> Metrics:
    if operation == "WRITE":
        appended_rows = 0 if kind == "rewrite" else _first_count(counts, _APPENDED_ROWS)
        return Metrics(source_rows=appended_rows, inserted=appended_rows)
    return Metrics(**{name: _first_count(counts, delta_names) for name, delta_names in _MERGED_ROWS.items()})


def _first_count(counts: Mapping[str, Any], names: Iterable[str]) -> int:
    return next((int(counts[name]) for name in names if name in counts), 0)


def require_readable(history: Iterable[Mapping[str, Any]], uri: str) -> None:
    """Raise ``LedgerError`` if the metadata of a lakehouse commit is newer, older or damaged."""
    for info in history:
        metadata = metadata_of(info)
        if not isinstance(metadata, UnreadableMetadata):
            continue
        if metadata.metadata > VERSION:
            raise LedgerError(
                f"Version {info['version']} was committed by a newer lakehouse (metadata {metadata.metadata};"
                f" this process reads {VERSION})",
                where=uri,
                action="Upgrade this process to the version of lakehouse that wrote it; nothing was changed.",
            )
        if metadata.metadata < VERSION:
            versions = f"metadata {metadata.metadata}; this process reads {VERSION}"
            message = f"Version {info['version']} of the table {OLDER} ({versions})"
            raise LedgerError(message, where=uri, action=LOAD_AGAIN)
        raise LedgerError(
            f"The metadata of the commit of version {info['version']} cannot be read ({metadata.problem}): another"
            " lakehouse wrote it, or it is damaged",
            where=f"{uri}/_delta_log/{info['version']:020d}.json",
            action="Use the lakehouse that wrote it, or restore an older backup; nothing was changed.",
        )


def of_stream(commit: Commit, name: str) -> Commit:
    """Return the commit with the progress of the source of that name as its own, and all others with it.

    If it has no progress of a source of that name, it has no source and no progress.
    """
    if commit.stream == name:
        return commit
    other_sources = set_aside(commit).other_sources
    text = next((text for text, part in other_sources.items() if part.stream == name and part.progress is not None), "")
    part = other_sources.get(text)
    return commit.with_fields(
        stream=name if part else None,
        source=SourceId.parse(text) if part else None,
        progress=part.progress if part else None,
        left_out=part.left_out if part else (),
        last_records=part.last_records if part else {},
        other_sources={source: part for source, part in other_sources.items() if source != text},
    )


def set_aside(commit: Commit, *, has_progress: bool = True) -> Commit:
    """Return the commit with its own source among the others, so that another one may take its place.

    Without progress, only its name is kept: another source has it now.
    """
    if commit.source is None or commit.stream is None:
        return commit
    own = _own_part(commit) if has_progress else OtherSource(stream=commit.stream)
    return commit.with_fields(other_sources={**commit.other_sources, commit.source.text: own})


def progress_by_stream(commit: Commit | None) -> dict[str, OtherSource]:
    """Return what a commit has read of each source with progress, by its name; its own is the last one."""
    parts = list(commit.other_sources.values()) if commit else []
    if commit and commit.source:
        parts.append(_own_part(commit))
    return {part.stream: part for part in parts if part.progress is not None}


def _own_part(commit: Commit) -> OtherSource:
    fields = {name: getattr(commit, name) for name in ("progress", "left_out", "last_records")}
    return OtherSource(stream=commit.stream or "", **fields)


def progress_by_source(commit: Commit | None) -> dict[SourceId, Positions]:
    """Return the next positions to read of every source with progress."""
    parts = {SourceId.parse(text): part.progress for text, part in commit.other_sources.items()} if commit else {}
    parts |= {commit.source: commit.progress} if commit and commit.source else {}
    return {source: positions for source, positions in parts.items() if positions is not None}


def ends_of(commit: Commit) -> ReachedEnds:
    """Return the progress of every source, as in ``reached``."""
    return {source.text: dict(positions) for source, positions in progress_by_source(commit).items() if positions}


def still_awaited(commit: Commit) -> ReachedEnds:
    """Return the ends that a streaming query waits for, of the sources of the commit, unless they are merged."""
    ends = ends_of(commit)
    return {source: part for source, part in reached_beyond(commit.awaited, ends).items() if source in ends}


def awaited_by_stream(commit: Commit | None) -> dict[str, dict[int, int]]:
    """Return what ``still_awaited`` returns by the name of the source."""
    names = names_of_sources(commit) if commit else {}
    return {names[source]: ends for source, ends in still_awaited(commit).items()} if commit else {}


def left_out_by_stream(commit: Commit | None) -> dict[str, tuple[Range, ...]]:
    """Return what the table left out on purpose, by the name of the source."""
    parts = {name: part.left_out for name, part in progress_by_stream(commit).items()}
    parts |= {commit.stream or "": commit.left_out} if commit else {}
    return {name: ranges for name, ranges in parts.items() if ranges}


def names_of_progress(commit: Commit | None) -> dict[str, str]:
    """Return the name of each source of which the commit has progress."""
    names = names_of_sources(commit) if commit else {}
    return {source.text: names[source.text] for source in progress_by_source(commit) if source.text in names}


def names_of_sources(commit: Commit) -> dict[str, str]:
    """Return the name of each source that the commit names."""
    other_sources = {text: part.stream for text, part in commit.other_sources.items()}
    return other_sources | ({commit.source.text: commit.stream} if commit.source and commit.stream else {})


def find_name(entries: Iterable[Entry], source: SourceId) -> str | None:
    """Return the name of a source whose records the table has read; ``None`` if no entry names it."""
    names = (names_of_sources(entry.commit) for entry in entries)
    return next((streams[source.text] for streams in names if source.text in streams), None)
