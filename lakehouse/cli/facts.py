"""What commits did, as flat facts under the names of the ledger: rows of a table, objects in JSON."""

from typing import TYPE_CHECKING, Any

from lakehouse.errors import printable

if TYPE_CHECKING:
    from lakehouse.ingest.batches import Outcome
    from lakehouse.kafka import Record
    from lakehouse.ledger.commits import Entry
    from lakehouse.operations.rejections import Sample

_NOT_SHOWN = ("other_fields", "accepted", "reason")  # facts that need more room than a column
_SHOWN = 200  # characters of a key or a value
_SHOWN_RANGES = 12  # of a commit; --json has all


def commit_facts(entry: "Entry") -> dict[str, Any]:
    """What a commit says of itself, and what Delta counted."""
    from lakehouse.ledger.accounting import figures

    commit = entry.commit
    return {
        "version": entry.version,
        "committed_at": entry.committed_at,
        "kind": commit.kind,
        "number": commit.number,
        **figures(entry),
        "ranges": {part.partition: [part.start, part.end] for part in commit.ranges if part.span},
        "gap": {part.partition: [part.start, part.end] for part in commit.gap},
        "accepted": list(commit.accepted),
        "reason": commit.reason,
        "run": commit.run,
    }


def outcome_facts(outcome: "Outcome") -> dict[str, Any]:
    """What a commit did, and what it left; lag is in offsets."""
    lasted = {"lag_after": outcome.lag_after, "seconds": round(outcome.seconds, 1)}
    return commit_facts(outcome.entry) | lasted | {"other_fields": dict(outcome.others)}


def shown_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as a row of a table: ranges in one word each, times to the second."""
    words = {name: _in_words(facts[name]) for name in ("ranges", "gap")}
    facts = {name: fact for name, fact in facts.items() if name not in _NOT_SHOWN}
    return facts | {"committed_at": seconds(facts["committed_at"]), **words}


def _in_words(ranges: dict[int, list[int]]) -> str:
    if len(ranges) > _SHOWN_RANGES:
        span = sum(end - start for start, end in ranges.values())
        return f"{span:,} offsets of {len(ranges):,} partitions"
    return " ".join(f"{partition}:{start}-{end}" for partition, (start, end) in ranges.items())


def record_facts(record: "Record | Sample", word: str, position: int) -> dict[str, Any]:
    """Where a record stands, by the ``word`` for its position, its time, and the beginning of what it holds."""
    return {
        "partition": record.partition,
        word: position,
        "time": record.time,
        "key": _as_text(record.key),
        "value": _as_text(record.value),
    }


def _as_text(raw: bytes | None) -> str | None:
    """The beginning of what a record holds, as text on one line; ``None`` where it holds nothing."""
    if raw is None:
        return None
    text = printable(raw[: 4 * _SHOWN].decode("utf-8", "surrogateescape"))
    return text if len(text) <= _SHOWN and len(raw) <= 4 * _SHOWN else f"{text[:_SHOWN]}…"


def seconds(time: Any) -> str:
    """A time to the second; as DuckDB writes it, where it lies beyond those of Python: before year 1 or after 9999."""
    return time if isinstance(time, str) else f"{time:%Y-%m-%d %H:%M:%S} UTC"
