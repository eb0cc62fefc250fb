"""The progress of a table that reads several sources, such as topics: a commit has that of one, and carries the others.

Each commit reads one source. ``of_stream`` turns the last commit into one of the source that is read next.
"""

from collections.abc import Iterable

from lakehouse.ledger.commit_values import OtherSource
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.positions import Positions, Range, SourceId
from lakehouse.ledger.reached import ReachedEnds, reached_beyond


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
    own = OtherSource(stream=commit.stream)
    if has_progress:
        own = _own_part(commit)
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
