"""Commits and records as flat dictionaries, under the names of the ledger: rows of a table, objects in JSON."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lakehouse.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.decoding.one_record import Verdict
    from lakehouse.decoding.rules import Rules
    from lakehouse.ingest.outcomes import Outcome
    from lakehouse.kafka import Record
    from lakehouse.operations.rejections import Sample
    from lakehouse.sources.files.source import FileRecord
    from lakehouse.sources.generated_records import GeneratedRecord

    AnyRecord = Record | FileRecord | GeneratedRecord

_HIDDEN_FIELDS = ("other_fields", "accepted", "reason")  # too wide for a column; --json has them
_MAX_CHARACTERS = 200  # of a key or a value
_MAX_RANGES = 12  # of a commit in a table; --json has all


def outcome_fields(outcome: "Outcome") -> dict[str, Any]:
    """What a commit did, its duration, and the lag after it in offsets."""
    from lakehouse.operations.status import commit_fields

    progress = {"lag_after": outcome.lag_after, "seconds": round(outcome.seconds, 1)}
    return commit_fields(outcome.entry) | progress | {"other_fields": dict(outcome.unmapped_fields)}


def table_rows(commits: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of commits as rows of a printed table; without what is rare if there is none of it."""
    from lakehouse.ledger.accounting import OPTIONAL_FIGURES

    rows = [_table_row(fields) for fields in commits]
    unused_names = [name for name in (*OPTIONAL_FIGURES, "left_out") if not any(row[name] for row in rows)]
    unused_names += ["topic"] if len({row["topic"] for row in rows if row["topic"]}) < 2 else []
    return [{name: value for name, value in row.items() if name not in unused_names} for row in rows]


def _table_row(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a commit as a row of a printed table: ranges as text, times to the second."""
    range_texts = {name: ranges_text(fields[name]) for name in ("ranges", "gap", "left_out")}
    columns = {name: value for name, value in fields.items() if name not in _HIDDEN_FIELDS}
    return columns | {"committed_at": seconds(fields["committed_at"]), **range_texts}


def ranges_text(ranges: dict[int, list[int]]) -> str:
    """Ranges by partition as text; of many partitions only the sums."""
    if len(ranges) > _MAX_RANGES:
        span = sum(end - start for start, end in ranges.values())
        return f"{span:,} offsets of {len(ranges):,} partitions"
    return " ".join(f"{partition}:{start}-{end}" for partition, (start, end) in ranges.items())


def record_fields(record: "AnyRecord | Sample", place: "Mapping[str, Any]") -> dict[str, Any]:
    """Partition, place in it, time, and the start of key and value."""
    return {
        "partition": record.partition,
        **place,
        "time": record.time,
        "key": _start_text(record.key),
        "value": _start_text(record.value),
    }


def _start_text(raw: bytes | None) -> str | None:
    """The start of a key or a value, as text on one line; ``None`` if there is none."""
    if raw is None:
        return None
    text = printable(raw[: 4 * _MAX_CHARACTERS].decode("utf-8", "surrogateescape"))
    is_whole = len(text) <= _MAX_CHARACTERS and len(raw) <= 4 * _MAX_CHARACTERS
    return text if is_whole else f"{text[:_MAX_CHARACTERS]}…"


def seconds(time: Any) -> str:
    """A time to the second; a text stays as it is: DuckDB's form of times before year 1 or after 9999."""
    return time if isinstance(time, str) else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def judge_rows(record: "AnyRecord", rules: "Rules") -> "list[Verdict]":
    """What becomes of each row of a record; a record without a time is for the caller to reject."""
    from lakehouse.decoding.one_record import judge_record
    from lakehouse.decoding.record_parts import HEADER, KEY, TIME

    headers = {f"{HEADER}{name}": value for name, value in record.headers}
    return judge_record(record.value, rules, {KEY: record.key, TIME: record.milliseconds * 1000, **headers})
