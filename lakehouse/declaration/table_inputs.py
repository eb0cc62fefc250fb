"""What a table reads: topics and where it begins in them, files, another table, or generated records."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal

from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.decoding.generated import Choice, Counter, GeneratedField, Hash

LATEST = "latest"
"""The start of a table that begins at the end of its topic."""
FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The first time that the time index of a broker can look up."""
Start = datetime | str | Mapping[int, int]
"""A time, also as text in ISO 8601, ``LATEST``, or an offset for each partition."""
_MAX_SHOWN = 5  # topics that a text names
_DEFAULT_SETTLE = timedelta(seconds=30)
_DEFAULT_BATCH = 2**30


def start_time(start: Start | None) -> datetime | None:
    """Return the time at which a table begins; ``None`` if it begins at no time. ``ValueError`` for any other text."""
    if isinstance(start, str) and start != LATEST:
        return datetime.fromisoformat(start)
    return start if isinstance(start, datetime) else None


@dataclass(frozen=True)
class TopicPattern:
    """Every topic whose whole name matches a regular expression, also one that is created later.

    Topics of the broker's own, such as those of its consumer groups, never match.
    """

    pattern: str

    def __repr__(self) -> str:
        """Return the pattern as it is declared."""
        return f"TopicPattern({self.pattern!r})"

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match, sorted, each once."""
        pattern = re.compile(self.pattern)
        return sorted({name for name in names if pattern.fullmatch(name)})


def describe_topics(topics: Sequence[str] | TopicPattern) -> str:
    """Return the topics as a sentence names them; of many, the first ones."""
    if isinstance(topics, TopicPattern):
        return f"topics that match {topics.pattern}"
    omitted_count = len(topics) - _MAX_SHOWN
    return f"topics {', '.join(topics[:_MAX_SHOWN])}" + (f" and {omitted_count} more" if omitted_count > 0 else "")


@dataclass(frozen=True)
class Files:
    """The files in a folder, or below it, whose names match ``names``: each line, element or row of them is a record.

    ``folder`` is a path, also one relative to ``LAKEHOUSE_FILES``, or the URI of a place in a store. Names that begin
    with ``.`` or ``_`` are ignored. ``each="line"``: a record per line that is not blank, which ``format`` of the table
    decodes. ``"element"``: per element of a JSON array, or one for a single object. ``"row"``: per row of a Parquet or
    Avro file, as a JSON object. Names that end in ``.gz``, ``.zst`` or ``.zstd`` are decompressed. ``header`` is the
    first line of each file, which is not a record. With ``quoted_line_breaks``, a line break within quotes belongs to
    the line. A file is taken once it has not changed for ``settle``; ``timedelta(0)`` is for files that are renamed
    into the folder when they are complete. A batch takes files until they have ``batch_bytes`` bytes, at least one.
    """

    folder: str
    names: str = "*"
    each: Literal["line", "element", "row"] = "line"
    header: str = ""
    quoted_line_breaks: bool = False
    settle: timedelta = _DEFAULT_SETTLE
    batch_bytes: int = _DEFAULT_BATCH

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
        return ("files", self.folder, self.names, self.each, self.header, self.quoted_line_breaks)


@dataclass(frozen=True)
class TableRows:
    """The rows of another Delta table, first as they are, then each change: a record is a row as a JSON object.

    ``of`` is the name of a table under the root of the tables, declared or not, or the path or URI of another one. Its
    change data must be enabled. The field ``_change_type`` is ``insert``, ``update`` or ``delete``, and
    ``_commit_version`` is the version that changed the row. With ``former_rows``, each update is preceded by a record
    ``former`` with the row before it: needed if an update changes a value of the key.
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
class Generated:
    """Records that are computed, ``rate`` per second in all partitions together, for load and demonstrations.

    A record is a JSON object with ``fields``: a ``Counter``, a ``Hash`` or a ``Choice`` for each name. It is a pure
    function of ``seed``, partition and position, so a replay, another process and another machine give the same bytes.
    Record 0 is of partition 0, record 1 of partition 1, and so on. The time of record n is n / ``rate`` seconds after
    the start: ``since``, a time with a zone, else the time at which the table was created. A record exists once its
    time has passed. ``count`` limits how many there ever are.
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
