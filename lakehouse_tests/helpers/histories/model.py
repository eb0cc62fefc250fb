"""The expected content of the tables, in plain Python: dictionaries, tuples and loops, without Delta or Spark."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakehouse_tests.helpers.histories.model_rejections import Rejections
from lakehouse_tests.helpers.histories.model_values import (
    Key,
    ModelCounts,
    Moment,
    Order,
    Partition,
    Position,
    Record,
    Row,
    Rules,
    combine_rows,
    compare_rows,
    rollup_values,
)

_COUNTED = "read empty filtered erased rejected superseded inserted updated deleted deletes_without_row stale".split()


class Model:
    """The expected tables of one stream table. ``now`` is the state of the newest version.

    ``topic`` has the sent records of each partition, and of each record its rows: itself, or its elements. ``times``
    has their broker times. ``erased`` has, for each erased key, the ends of what was read before.
    """

    def __init__(self, *, has_elements: bool = False) -> None:
        self.rules = Rules()
        self.topic: dict[Partition, list[tuple[Record, ...]]] = {}
        self.times: dict[Partition, list[datetime]] = defaultdict(list)
        self._has_elements = has_elements
        self.base: dict[Key, float | None] = {}
        self.base_version: int | None = None
        self.now = Moment()
        self.moments: dict[int, Moment] = {}
        self.truncated: Moment | None = None
        self._rejections = Rejections()
        self.erased: dict[Key, dict[Partition, int]] = {}

    def committed(self, version: int) -> None:
        """Record the current state as that of a version; the version before it may be that of a truncate."""
        self.moments[version] = deepcopy(self.now)
        if self.truncated:
            self.moments[version - 1] = self.truncated
        self.truncated = None

    def batch(self, ranges: Mapping[Partition, tuple[int, int]]) -> ModelCounts:
        """Merge the next records, which begin at the end of the last batch."""
        self.now.totals["times_back"] += sum(self._read(partition, *part) for partition, part in ranges.items())
        counts = self.replay(ranges)
        for partition, (start, end) in ranges.items():
            assert start == self.now.progress.get(partition, 0), "a batch does not begin at the end of the previous one"
            self.now.progress[partition] = end
        for name in _COUNTED:
            self.now.totals[name] += getattr(counts, name)
        self.now.totals["rows_read"] += counts.judged if self._has_elements else 0
        self.now.totals["batches"] += 1
        return counts

    def _read(self, partition: Partition, start: int, end: int) -> int:
        """Give records that are read for the first time their order; return how many times went back."""
        times_back = 0
        for offset in range(start, end):
            time = self.times[partition][offset]
            greatest = max(time, self.now.greatest_times.get(partition, time))
            times_back += time < greatest
            self.now.greatest_times[partition] = greatest
            rows = self.topic[partition][offset]
            self.topic[partition][offset] = tuple(replace(row, order_time=greatest) for row in rows)
        return times_back

    def replay(self, ranges: Mapping[Partition, tuple[int, int]]) -> ModelCounts:
        """Merge records without changing the progress."""
        return self._decide([rows for p, (start, end) in ranges.items() for rows in self.topic[p][start:end]])

    def redrive(self, partitions: Collection[Partition] | None = None) -> ModelCounts | None:
        """Decide the rejected records of partitions, or of all, again; return ``None`` if all are rejected again."""
        rejected = {place for place in self.rejected() if partitions is None or place[0] in partitions}
        sent = [self.topic[p][offset] for p, offset in sorted({position[:2] for position in rejected})]
        records = [tuple(row for row in rows if row.position in rejected) for rows in sent]
        reasons = self._verdicts(records)
        if all(reasons.values()):
            self._rejections.store(reasons, self.now.commits)
            return None
        return self._decide(records)

    def _decide(self, sent: list[tuple[Record, ...]]) -> ModelCounts:
        every_row = [row for rows in sent for row in rows]
        sent = [tuple(row for row in rows if not self.is_erased(row)) for rows in sent]
        judged = [row for rows in sent for row in rows]
        records = [row for row in judged if not row.is_filtered(self.rules)]
        accepted = self.passing(sent)
        reasons = self._verdicts(sent)
        self.truncated = self.moment_of_truncate(accepted)
        self._store(reasons)
        accepted_count = len(accepted)
        keyed_records = [(r.key, r) for r in accepted if r.key is not None and not r.truncates]
        erasing_orders = {r.order for _, r in keyed_records if r.says_null and self.rules.null_erases and not r.deletes}
        for key, record in keyed_records:
            if record.deletes:
                self.now.deletes[key] = max(record.order, self.now.deletes.get(key, record.order))
        rows = [(key, None if r.deletes else r.temperature, r.order) for key, r in keyed_records]
        counts = self._merge(rows, erasing_orders, {r.order for _, r in keyed_records if r.deletes})
        late = sum(r.is_late and r.reason(self.rules) in (None, "late") for r in records)
        superseded_count = counts.superseded + accepted_count - len(keyed_records)
        rejected = len(records) - accepted_count
        erased = len(every_row) - len(judged)
        empty = sent.count(()) if self._has_elements else 0
        read = dict(read=len(sent), empty=empty, judged=len(every_row), filtered=len(judged) - len(records))
        return replace(counts, **read, rejected=rejected, superseded=superseded_count, late=late, erased=erased)

    def erase(self, key: Key) -> None:
        """Erase a key, if anything of it is stored: no record that was read before has a row, a change or a reason."""
        rejected_keys = {self._row_at(position).key for position in self.rejected()}
        is_stored = key in rejected_keys | self.now.deletes.keys() or any(key in m.rows for m in self.moments.values())
        if not is_stored:
            return
        self.erased[key] = dict(self.now.progress)
        for moment in (self.now, *self.moments.values()):
            moment.rows.pop(key, None)
            moment.deletes.pop(key, None)
        self._rejections.forget(lambda position: self._is_of_erased_key(self._row_at(position)))

    def _row_at(self, position: Position) -> Record:
        return next(row for row in self.topic[position[0]][position[1]] if row.position == position)

    def is_erased(self, record: Record) -> bool:
        """Whether a record is left out, because its key was erased after the record was read."""
        return self._is_of_erased_key(record) and not record.is_filtered(self.rules)

    def _is_of_erased_key(self, record: Record) -> bool:
        ends = self.erased.get(record.key, {}) if record.key and not record.truncates else {}
        return record.offset < ends.get(record.partition, 0)

    def decide_all(self, sent: Iterable[tuple[Record, ...]]) -> None:
        """Decide sent records in one commit, without merging them."""
        self._store(self._verdicts(sent))

    def _store(self, reasons: Mapping[Position, str | None]) -> None:
        """Store the reasons of a commit, which are ``None`` for records that pass."""
        self.now.commits |= {self._rejections.store(reasons, self.now.commits)}

    def passing(self, sent: Iterable[tuple[Record, ...]]) -> list[Record]:
        """Return the rows of sent records that neither the rules nor a purged delete keep out of the table now."""
        judged = (row for rows in sent for row in rows if not (row.is_filtered(self.rules) or self.is_erased(row)))
        return [row for row in judged if self.reason(row) is None]

    def _verdicts(self, sent: Iterable[tuple[Record, ...]]) -> dict[Position, str | None]:
        """Return why each row is rejected now; ``None`` if it passes or is filtered."""
        judged = (row for rows in sent for row in rows)
        return {row.position: None if row.is_filtered(self.rules) else self.reason(row) for row in judged}

    def reason(self, record: Record) -> str | None:
        """Return why a record is rejected now: by the rules, or because a purged delete may have deleted it."""
        reason = record.reason(self.rules)
        purged = self.now.purged
        if reason or purged is None or record.deletes or record.truncates or record.order > purged:
            return reason
        row = self.now.rows.get(record.key) if record.key else None
        is_known = row and (record.temperature is None or row.temperature_order is not None)
        return None if is_known else "beyond_horizon"

    def moment_of_truncate(self, records: Iterable[Record]) -> Moment | None:
        """Apply the newest truncate of these records; return the state after it, ``None`` if it changed no row."""
        truncates = [record.order for record in records if record.truncates]
        if not truncates or (self.now.truncate is not None and max(truncates) <= self.now.truncate):
            return None
        self.now.truncate = max(truncates)
        rows = {key: self._after_deletes(key, row) for key, row in self.now.rows.items()}
        left_rows = {key: row for key, row in rows.items() if row}
        if left_rows == self.now.rows:
            return None
        self.now.rows = left_rows
        return deepcopy(self.now)

    def purge(self, before: datetime) -> bool:
        """Forget the deletes that are older than a time and than every record since; return whether any was."""
        orders = [*(row.order for row in self.now.rows.values()), *self.now.deletes.values()]
        recent_orders = [order for order in orders if order[0] == 1 and self._broker_time(order) >= before]
        old_deletes = {
            key: order
            for key, order in self.now.deletes.items()
            if self._broker_time(order) < before and recent_orders and order < min(recent_orders)
        }
        for key in old_deletes:
            del self.now.deletes[key]
        self.now.purged = max([*old_deletes.values(), *([self.now.purged] if self.now.purged else [])], default=None)
        return bool(old_deletes)

    def _broker_time(self, order: Order) -> datetime:
        _, _, partition, offset, *_ = order
        return self.times[partition][offset]

    def merge_base(self, number: int) -> ModelCounts | None:
        """Merge the base rows with this commit if their version has changed."""
        if self.base_version is None or self.base_version == self.now.base_version:
            return None
        self.now.base_version = self.base_version
        return self._merge([(key, value, (0, number)) for key, value in self.base.items()])

    def _merge(
        self,
        rows: Iterable[tuple[Key, float | None, Order]],
        erasing: Collection[Order] = (),
        deletes: Collection[Order] = (),
    ) -> ModelCounts:
        newest: dict[Key, Row] = {}
        read = 0
        for key, value, order in sorted(rows, key=lambda row: row[2]):
            read += 1
            previous_record = newest.get(key)
            sets_temperature = value is not None or order in erasing
            temperature, temperature_order = (value, order) if sets_temperature else (None, None)
            if previous_record and not sets_temperature:
                temperature, temperature_order = previous_record.temperature, previous_record.temperature_order
            newest[key] = Row(temperature, order, temperature_order)
        counts = dict(inserted=0, updated=0, deleted=0, deletes_without_row=0, stale=0)
        for key, row in newest.items():
            counts[self._put(key, row, is_delete=row.order in deletes)] += 1
        return ModelCounts(read=read, judged=read, superseded=read - len(newest), **counts)

    def _put(self, key: Key, row: Row, *, is_delete: bool) -> str:
        stored_row = self.now.rows.pop(key, None)
        new_row = None if is_delete else self._after_deletes(key, row)
        merged_row = combine_rows(self._after_deletes(key, stored_row), new_row)
        if merged_row:
            self.now.rows[key] = merged_row
        if stored_row is None and merged_row is None:
            return "deletes_without_row" if is_delete else "stale"
        if stored_row is None or merged_row is None:
            return "inserted" if merged_row else "deleted"
        return "stale" if merged_row == stored_row else "updated"

    def _after_deletes(self, key: Key, row: Row | None) -> Row | None:
        """Return what the newest delete of the key, and the newest truncate, leave of a row."""
        orders = [order for order in (self.now.deletes.get(key), self.now.truncate) if order is not None]
        if row is None or not orders:
            return row
        newest = max(orders)
        if row.order <= newest:
            return None
        has_older_value = row.temperature is not None and (row.temperature_order or ()) <= newest
        return Row(None, row.order, None) if has_older_value else row

    def load_base(self, values: Mapping[Key, float | None], version: int | None) -> None:
        """Load base files: a missing value does not replace a stored one."""
        for key, value in values.items():
            self.base[key] = self.base.get(key) if value is None else value
        self.base_version = version

    def overwrite(self, key: Key, temperature: float | None) -> None:
        """Update a row as another program does; a new temperature gets the order of its row."""
        row = self.now.rows[key]
        self.now.rows[key] = replace(row, temperature=temperature, temperature_order=row.temperature_order or row.order)

    def restore(self, version: int) -> None:
        """Restore a version; rejected records are not restored with it."""
        self.now = deepcopy(self.moments[version])

    def rejected(self) -> dict[Position, str]:
        """Return the rejected positions that were read, with their reasons."""
        open_rejections = self._rejections.open(self.now.commits)
        return {position: why for position, why in open_rejections.items() if not self.is_pending(*position[:2])}

    def is_pending(self, partition: Partition, offset: int) -> bool:
        """Whether the batch that reads a record has not committed yet."""
        return offset >= int(self.now.progress.get(partition, 0))

    def changes(self) -> set[tuple[Any, ...]]:
        """Return the changes of all versions: key, version, kind, temperature before and after."""
        changed_rows = set()
        rows_before: dict[Key, Row] = {}
        for version, moment in sorted(self.moments.items()):
            for key in rows_before.keys() | moment.rows.keys():
                change = compare_rows(rows_before.get(key), moment.rows.get(key))
                if change:
                    changed_rows.add((*key, version, *change))
            rows_before = moment.rows
        return changed_rows

    def rollup(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Return rows, readings, minimum, maximum, sum, mean, first and last hour of each place and month."""
        groups: dict[tuple[Any, ...], list[tuple[datetime, float | None]]] = defaultdict(list)
        for (latitude, longitude, hour), row in self.now.rows.items():
            groups[latitude, longitude, hour.date().replace(day=1)].append((hour, row.temperature))
        return {group: rollup_values(rows) for group, rows in groups.items()}
