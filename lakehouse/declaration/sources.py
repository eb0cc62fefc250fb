"""The sources of a table: topics, files, another table, or generated records."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar, Literal

from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.decoding.generated import Choice, Counter, GeneratedField, Hash

__all__ = ["Choice", "Counter", "Files", "Generated", "Hash", "TableRows", "Topic", "TopicPattern", "Topics"]

LATEST = "latest"
"""The start of a table that begins at the end of its topic."""
FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The first time that the time index of a broker can look up."""
Start = datetime | str | Mapping[int, int]
"""A time, also as text in ISO 8601, ``LATEST``, or an offset for each partition."""
Gaps = Literal["stop", "accept"]
Order = Literal["timestamp", "offset"]
_MAX_SHOWN = 5  # topics that a text names
_DEFAULT_SETTLE = timedelta(seconds=30)
_DEFAULT_BATCH = 2**30


def start_time(start: Start | None) -> datetime | None:
    """Return the time at which a table begins; ``None`` if it begins at no time. ``ValueError`` for any other text."""
    if isinstance(start, str) and start != LATEST:
        return datetime.fromisoformat(start)
    return start if isinstance(start, datetime) else None


@dataclass(frozen=True, kw_only=True)
class _TopicOptions:
    """The options that one topic and several have."""

    gaps: Gaps = "stop"
    partitions: int = 3
    replay_from: date | None = None
    may_forget: bool = False

    position_noun: ClassVar[str] = "offset"
    asset_suffix: ClassVar[str] = "topic"


@dataclass(frozen=True)
class Topic(_TopicOptions):
    """A topic: ``topic="orders"`` of a table is the short form of ``source=Topic("orders")``.

    ``start`` is where a new table begins: a time with a zone, ``"latest"``, or an offset for each partition. A table
    that has read its topic ignores it. ``gaps`` decides what happens if records expire in the topic before they are
    merged: stop with an error, or record the gap and continue. Any other loss stops until a person accepts it.
    ``order="offset"`` decides by offsets alone which record is newer, not by the broker's timestamp first: for topics
    whose producers set the timestamps and whose keys stay in one partition. The topic must never get more partitions:
    keys would move to partitions with lower offsets, and their updates would count as older. ``partitions`` is how many
    partitions the topic gets if ``lakehouse`` creates it. ``replay_from`` is the first day whose records can be
    replayed in Dagster; without it, there is no asset for that. ``may_forget`` accepts that values of kept columns are
    lost if the topic is compacted before they are merged.
    """

    name: str
    start: Start | None = field(default=None, kw_only=True)
    order: Order = field(default="timestamp", kw_only=True)

    @property
    def text(self) -> str:
        """The topic, as a sentence names it."""
        return f"topic {self.name}"


@dataclass(frozen=True)
class Topics(_TopicOptions):
    """Several topics, each with its own progress. The options are those of ``Topic``.

    ``start`` is a time with a zone. There is no ``order``, because offsets of several topics cannot be compared.
    """

    names: Sequence[str]
    start: datetime | str | None = field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        """The topics, as a sentence names them; of many, the first ones."""
        omitted_count = len(self.names) - _MAX_SHOWN
        more_text = f" and {omitted_count} more" if omitted_count > 0 else ""
        return f"topics {', '.join(self.names[:_MAX_SHOWN])}{more_text}"


@dataclass(frozen=True)
class TopicPattern(_TopicOptions):
    """Every topic whose whole name matches a regular expression, also one that is created later.

    Topics of the broker's own, such as those of its consumer groups, never match. The options are those of ``Topics``.
    """

    pattern: str
    start: datetime | str | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Return the pattern as it is declared, without its options."""
        return f"TopicPattern({self.pattern!r})"

    @property
    def text(self) -> str:
        """The topics, as a sentence names them."""
        return f"topics that match {self.pattern}"

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match, sorted, each once."""
        pattern = re.compile(self.pattern)
        return sorted({name for name in names if pattern.fullmatch(name)})


@dataclass(frozen=True, kw_only=True)
class _Positions:
    """The option of sources that number their records themselves."""

    order: Order = field(default="timestamp", repr=False)


@dataclass(frozen=True)
class Files(_Positions):
    """The files in a folder, or below it, whose names match ``names``: each line, element or row of them is a record.

    ``folder`` is a path, also one relative to ``LAKEHOUSE_FILES``, or the URI of a place in a store. Names that begin
    with ``.`` or ``_`` are ignored. ``each="line"``: a record per line that is not blank, which ``format`` of the table
    decodes. ``"element"``: per element of a JSON array, or per object of those that follow one another. ``"row"``: per
    row of a Parquet or Avro file, as a JSON object. Names that end in ``.gz``, ``.zst`` or ``.zstd`` are decompressed.
    ``header`` is the first line of each file, which is not a record; ``title_lines`` are in front of it, and
    ``total_lines`` at the end of the file: so many lines that are not blank are left out. With
    ``quoted_line_breaks``, a line break within quotes belongs to the line. A file is taken once it has not changed for
    ``settle``; ``timedelta(0)`` is for files that are renamed into the folder when they are complete. A batch takes
    files until they have ``batch_bytes`` bytes, at least one. ``order="offset"`` decides by the numbers of files and
    lines alone which record is newer, not by the times of files.
    """

    folder: str
    names: str = "*"
    each: Literal["line", "element", "row"] = "line"
    header: str = ""
    quoted_line_breaks: bool = False
    settle: timedelta = _DEFAULT_SETTLE
    batch_bytes: int = _DEFAULT_BATCH
    title_lines: int = 0
    total_lines: int = 0

    position_noun: ClassVar[str] = "file"
    asset_suffix: ClassVar[str] = "folder"

    @property
    def text(self) -> str:
        """The folder, as a sentence names it."""
        return f"folder {self.folder}"

    @property
    def stream(self) -> str:
        """The name of the source in commits."""
        return self.folder

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """What decides which records the files have."""
        left_out = (self.title_lines, self.total_lines)
        parts = ("files", self.folder, self.names, self.each, self.header, self.quoted_line_breaks)
        return (*parts, left_out) if any(left_out) else parts


@dataclass(frozen=True)
class TableRows(_Positions):
    """The rows of another Delta table, first as they are, then each change: a record is a row as a JSON object.

    ``of`` is the name of a table under the root of the tables, declared or not, or the path or URI of another one. Its
    change data must be enabled. The field ``_change_type`` is ``insert``, ``update`` or ``delete``, and
    ``_commit_version`` is the version that changed the row. With ``former_rows``, each update is preceded by a record
    ``former`` with the row before it: needed if an update changes a value of the key. ``order="offset"`` decides by the
    versions alone which record is newer, not by the times of commits.
    """

    of: str
    former_rows: bool = False

    position_noun: ClassVar[str] = "version"
    asset_suffix: ClassVar[str] = "source"

    @property
    def text(self) -> str:
        """The table, as a sentence names it."""
        return f"table {self.of}"

    @property
    def stream(self) -> str:
        """The name of the source in commits."""
        return self.of

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """What decides which records the table gives."""
        return ("rows of", self.of, self.former_rows)


def _default_fields() -> dict[str, GeneratedField]:
    return {"md5": Hash(), "value": Counter(), "hash": Counter(modulo=1_000_000)}


@dataclass(frozen=True)
class Generated(_Positions):
    """Records that are computed, ``rate`` per second in all partitions together, for load and demonstrations.

    A record is a JSON object with ``fields``: a ``Counter``, a ``Hash`` or a ``Choice`` for each name. It is a pure
    function of ``seed``, partition and position, so a replay, another process and another machine give the same bytes.
    Record 0 is of partition 0, record 1 of partition 1, and so on. The time of record n is n / ``rate`` seconds after
    the start: ``since``, a time with a zone, else the time at which the table was created. A record exists once its
    time has passed. ``count`` limits how many there ever are. ``order="offset"`` decides by the numbers of records
    which of them is newer.
    """

    rate: int = 10_000
    partitions: int = 100
    seed: int = 0
    fields: Mapping[str, GeneratedField] = field(default_factory=_default_fields)
    since: datetime | None = None
    count: int | None = None

    position_noun: ClassVar[str] = "record"
    asset_suffix: ClassVar[str] = "generator"

    @property
    def text(self) -> str:
        """The generator, as a sentence names it."""
        return f"generator {self.stream}"

    @property
    def stream(self) -> str:
        """The name of the source in commits."""
        return f"{self.rate}-per-second-{self.digest[:8]}"

    @property
    def digest(self) -> str:
        """A hash of what decides the records: not of the start, and not of their count."""
        return fingerprint_of(*self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """What decides which records there are."""
        fields = [(n, "choice", *f.values) if isinstance(f, Choice) else (n, f) for n, f in self.fields.items()]
        return ("generated", self.rate, self.partitions, self.seed, *fields)


TableSource = Topic | Topics | TopicPattern | Files | TableRows | Generated
"""What ``source`` of a table can be."""
