"""The status of a table and its commits as flat dictionaries, under the names of the ledger: objects in JSON."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from lakehouse.ledger.accounting import figures
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Range, describe_held
from lakehouse.ledger.several_sources import left_out_by_stream
from lakehouse.operations.status import PartitionStatus, Status


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
