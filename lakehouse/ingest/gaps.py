"""Gaps: whether a batch may continue after records that are gone, and the commit that records this.

The commit has the positions that are gone and the progress after them, and no row. So does the commit that records
the declared start of a new table.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse.declaration import StreamTable, TableRows, Tombstone
from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.ledger.commit_infos import set_aside
from lakehouse.ledger.commit_values import LastRecord, LastRecords, reached_beyond, standing_records
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, plan_batch
from lakehouse.ledger.positions import (
    VERSION_PLACES,
    Gap,
    Plan,
    Progress,
    Range,
    SourceState,
    find_expired,
    find_gap,
    source_words,
)
from lakehouse.storage.merge_spec import ChangeBounds, bounds_after


def plan_next_of(ledger: Ledger, state: SourceState, bounds: Bounds) -> Plan:
    """Plan what a table merges next, with the gap before it.

    If a RESTORE undid every batch, merged records may have expired since: all expired records are a gap then. If the
    topic was read before another one, so are the records that have gone since. What a new table leaves out before its
    declared start is not a gap. If the table reads several topics, the start of each is recorded before its first
    batch: then every topic with rejected records has progress.
    """
    plan = plan_batch(state, ledger.progress, bounds)
    if ledger.progress is None:
        gap = find_expired(state) if ledger.lost_progress_of(state.source) else None
        has_start = bool(state.starts) or ledger.stream is not None
        before_start = (Range(part.partition, state.earliest[part.partition], part.start) for part in plan.ranges)
        return replace(plan, gap=gap, left_out=tuple(p for p in before_start if p.span) if has_start else None)
    former_positions = ledger.reached.get(state.source.text)
    if plan.gap is None or former_positions is None or ledger.progress.source == state.source:
        return plan
    gap_since = find_gap(state, Progress(state.source, former_positions)) or Gap((), ())
    return replace(plan, gap=Gap(plan.gap.facts + gap_since.facts, plan.gap.ranges + gap_since.ranges))


def plan_table(table: StreamTable, state: SourceState, ledger: Ledger, bounds: Bounds) -> Plan:
    """Plan the next batch of a table; after a gap if its records expired and the declaration accepts that.

    After any other gap, raises ``DataLossError``, which names every partition that lost records. Raises
    ``DeclarationError`` if the declared order would treat new records as older than stored rows, or if a topic of
    changes is compacted.
    """
    require_comparable(table, ledger)
    if table.has_changes and state.is_compacted is not False:
        raise _compacted_error(table, is_known=state.is_compacted is not None)
    if table.keep and state.is_compacted and not table.topic_options.may_forget:
        raise _kept_error(table)
    plan = plan_next_of(ledger, state, bounds)
    if plan.gap and not (table.topic_options.gaps == "accept" and plan.gap.expired):
        raise data_loss_error(plan.gap, table, former_topic(ledger))
    return plan


def _compacted_error(table: StreamTable, *, is_known: bool) -> DeclarationError:
    if not is_known:
        return DeclarationError(
            f"The topic of {table.name} has changes of a database, so it must not be compacted. The broker does not say"
            " whether it is",
            where=table.place_text,
            action="Nothing was merged. Grant DescribeConfigs on the topic to this user.",
        )
    return DeclarationError(
        f"The topic of {table.name} has changes of a database and is compacted: compaction keeps the change that was"
        " sent last, which may be an old one that was sent again, and removes deletes",
        where=table.place_text,
        action="Nothing was merged. Set cleanup.policy=delete. If compaction may have removed records, send the changes"
        " to a new topic, and declare a table with another name.",
    )


def _kept_error(table: StreamTable) -> DeclarationError:
    return DeclarationError(
        f"Column {table.keep[0]} of {table.name} is kept, and its topic is compacted: the record with the newest value"
        " may be gone before it is merged, once its key has a record without a value",
        where=table.place_text,
        action="Nothing was merged. Set cleanup.policy=delete. Or set min.compaction.lag.ms to longer than any merge"
        " may be late, and declare may_forget=True of the topic.",
    )


def _require_same_version(table: StreamTable, bounds: ChangeBounds) -> None:
    """Raise if a truncate or a purged delete has the version of another column, or if base rows are older than one."""
    for order in filter(None, (bounds.truncate, bounds.purged)):
        if order.version_column != table.version_text:
            raise DeclarationError(
                f"Deletes of {table.name} have versions from column {order.version_column}, and the declaration names"
                f" {table.version_text}: they cannot be compared",
                where=f"table {table.name}",
                action=f"Declare the version as before, or build it again: lakehouse rebuild {table.name}",
            )
    if table.base and bounds.purged:
        raise DeclarationError(
            f"Deletes of {table.name} were purged, and base rows are older: deleted rows would come back",
            where=f"table {table.name}",
            action="Remove base, or declare a table with another name.",
        )


def require_comparable(table: StreamTable, ledger: Ledger) -> None:
    """Raise ``DeclarationError`` if new rows could not be compared with the stored ones, or with what was deleted.

    That is so if rows were read after the progress, and only offsets decide which is newer: they are from a deleted
    topic, from another one, or from the time before the broker was rolled back.
    """
    bounds = bounds_after(ledger)
    _require_same_version(table, bounds)
    if not table.has_changes and bounds.are_of_changes:
        raise DeclarationError(
            f"Table {table.name} has rows of a change stream. Records of format {table.format.name} have no position in"
            " the log of a database, so they cannot be compared with these rows",
            where=f"table {table.name}",
            action="Declare the format of before, or a table with another name.",
        )
    if table.key and not isinstance(table.source, TableRows) and _has_versions(ledger):
        raise DeclarationError(
            f"Table {table.name} has rows of another table, which are ordered by its versions. Records of"
            f" {table.place_text} have none, so they would seem older",
            where=table.place_text,
            action="Declare a table with another name.",
        )
    if table.order != "offset" or ledger.progress is None:
        return
    progress = {ledger.progress.source.text: dict(ledger.progress.positions)}
    if any(any(ends.values()) for ends in reached_beyond(ledger.reached, progress).values()):
        raise DeclarationError(
            f"Table {table.name} has rows from a deleted topic, from another topic, or of records that the broker has"
            " lost: their offsets cannot be compared with the current ones",
            where=table.place_text,
            action='Declare order="timestamp", or a table with another name, which a merge fills from the topic.',
        )


def _has_versions(ledger: Ledger) -> bool:
    """Whether a table has read another table."""
    sources = [*ledger.reached, *([ledger.progress.source.text] if ledger.progress else [])]
    return any(source_words(text).source == "table" for text in sources)


def former_topic(ledger: Ledger) -> str | None:
    """Return the name of the topic that a table has read last; ``None`` if it read something else."""
    commit = ledger.last_commit
    is_topic = commit is not None and commit.source is not None and source_words(commit.source).source == "topic"
    return commit.stream if commit and is_topic else None


def read_both(former: str, table: StreamTable) -> str:
    """Return the advice for a topic with another name than the former one, of which the table has records."""
    return f"If {former} got a new name and still exists, read both: source=Topics([{former!r}, {table.topic!r}])"


def data_loss_error(gap: Gap, table: StreamTable, former: str | None = None) -> DataLossError:
    """Return the error of a gap that nobody has accepted; ``former`` is the topic that the table has read."""
    action = f"If the loss is known and accepted, continue with: lakehouse repair gap {table.name}"
    if gap.hides_deletes and shows_deletes(table):
        action = (
            f"Continue with: lakehouse repair missing-keys {table.name}. It merges what waits, and deletes the rows"
            f" whose keys are gone from the topic. To keep these rows: lakehouse repair gap {table.name}"
        )
    if isinstance(table.source, TableRows):
        action = f"{action}. {_after_lost_changes(table)}"
    if table.has_changes:
        action += ". Rows whose deletes are lost stay: then compare with the database, or declare a new table"
    if not can_be_accepted(gap, table):
        action = (
            f"Offsets start again there, and {table.name} is ordered by offset only: new records would seem older than"
            ' its rows. Declare order="timestamp" first, or declare a table with another name.'
        )
    if former and table.topic and former != table.topic:
        action = f"{read_both(former, table)}. {action}"
    return DataLossError("; ".join(gap.shown_facts), where=table.place_text, action=action)


def shows_deletes(table: StreamTable) -> bool:
    """Whether a key that the topic of a table no longer has shows that its row was deleted.

    Only a tombstone removes a key. If a version or a header decides, it may have been one that deletes nothing.
    """
    is_decided = table.version_columns or any(not part.record_filter.is_about_value for part in table.conditions)
    return bool(table.key) and isinstance(table.deletes.when, Tombstone) and not is_decided


def _after_lost_changes(table: StreamTable) -> str:
    """Say what a table has after changes of the table that it reads were lost."""
    if not table.key:
        return "The log has no record of the lost changes then"
    if table.deletes.truncates:
        return "It replaces all rows by those that the other table has now"
    return (
        "It reads the rows that the other table has now; rows that were deleted meanwhile stay, unless you declare"
        ' deletes=Deletes(truncates=FieldIs("_change_type", ["truncate"])) first'
    )


def can_be_accepted(gap: Gap, table: StreamTable) -> bool:
    """Whether a user may accept a gap: if only offsets order the rows, only one after which they do not start again."""
    return gap.expired or gap.hides_deletes or table.order != "offset"


def _records_before(ledger: Ledger, plan: Plan) -> LastRecords:
    """Return the last records before a plan after a gap: where records are read again, those of an earlier batch.

    They are ordered as before, so that they change nothing. What a compacted topic lost until now is accepted.
    """
    former_records = ledger.last_records(plan.source)
    last_records = former_records[0] if former_records else {}
    if plan.gap is None or plan.gap.expired:
        return last_records
    starts = {part.partition: part.start for part in plan.ranges}
    lost_ends = {part.partition: _last_before(former_records, part.partition, starts) for part in plan.gap.ranges}
    return last_records | {p: last.with_fields(caught_up=time.time_ns() // 1000) for p, last in lost_ends.items()}


def _last_before(former: Sequence[LastRecords], partition: int, starts: Mapping[int, int]) -> LastRecord:
    known_records = standing_records([records.get(partition) for records in former])
    before = [last for last in known_records if (last.position or 0) < starts.get(partition, 0)]
    return before[-1] if before else LastRecord()


def _versions_before(ledger: Ledger, plan: Plan) -> int:
    """Return how many versions come before those of the table in a plan: all that were read of another table."""
    last = ledger.last_commit
    if last is None or last.source is None or last.source == plan.source or last.source.kind != "table":
        return last.versions_before if last else 0
    return last.versions_before + max((last.progress or {}).values(), default=0) // VERSION_PLACES + 1


def gap_commit(ledger: Ledger, plan: Plan, run: str) -> Commit:
    """Return a commit that moves the progress to the start of a plan, past its gap; it reads nothing.

    That of a new table whose start is declared is of kind ``start`` and records what the table leaves out on purpose.
    """
    is_same_source = ledger.progress is not None and ledger.progress.source == plan.source
    commit = ledger.next_commit("gap" if plan.left_out is None else "start", run)
    if ledger.stream is not None and not is_same_source:
        commit = set_aside(commit, has_progress=False)
    return commit.with_fields(
        stream=plan.stream,
        source=plan.source,
        progress={part.partition: part.start for part in plan.ranges},
        last_records=_records_before(ledger, plan),
        versions_before=_versions_before(ledger, plan),
        reached=ledger.reached,
        gap=plan.gap.ranges if plan.gap else (),
        left_out=plan.left_out or (ledger.left_out if is_same_source else ()),
    )
