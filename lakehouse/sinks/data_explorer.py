"""A table of Azure Data Explorer as the target of a sink: a row for each change, sent in parts that have tags.

The service has no transaction over two tables, so a run records first which range it is about to send, and last that
it is complete. A run that finds a range that is not complete sends its parts with the same tags again, and the service
skips those that it has. A part may also be ingested long after its run ended. So all rows go into a new table, with a
mapping of its own: a late part for the table before names a mapping that the new one does not have, and is refused.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from time import monotonic, sleep

from lakehouse.errors import TableError
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.sinks import data_explorer_kql as kql
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.data_explorer_cluster import Cluster, TargetRanges, open_cluster
from lakehouse.sinks.data_explorer_kql import Range
from lakehouse.sinks.data_explorer_rows import Part, column_types, columns_text, read_parts
from lakehouse.sinks.delivery import Delivery, Differences, SinkUpdate, TargetState, Written, as_of
from lakehouse.sinks.topic import changes_of
from lakehouse.sinks.topic_contents import TopicContents
from lakehouse.storage.row_changes import ChangesGoneError

PART_BYTES = 64_000_000  # of JSON, before the library compresses it
PATIENCE = 1_800  # seconds until the service has ingested all parts
_LONGEST_PAUSE = 30  # seconds between two looks
_LOOKS = 3  # of a check, while runs send
_PAGE = 100_000  # rows of a page of a check, about


class DataExplorerDelivery(Delivery):
    """A sink whose target is a table of Azure Data Explorer."""

    def look(self) -> TargetState:
        """Look how far the target is."""
        with open_cluster(self.settings, self.sink) as cluster:
            return self._state_of(cluster.read_ranges(), self.source())

    def deliver(self, run: str, reason: str | None) -> SinkUpdate:
        """Complete the range that another run began, then send what changed, or all rows into a new table."""
        sent: list[tuple[Range, Written]] = []
        with open_cluster(self.settings, self.sink) as cluster:
            ranges, source = cluster.read_ranges(), self.source()
            if ranges.pending and self._can_repeat(ranges.pending, ranges, source, reason):
                sent.append((ranges.pending, self._send(cluster, ranges.pending, ranges)))
                reason = None if ranges.pending.version == source.ledger.rows_version else reason
                ranges = cluster.read_ranges()
            ranges = self._begin(cluster, ranges, reason, run)
            if ranges.pending:
                sent.append((ranges.pending, self._send(cluster, ranges.pending, ranges)))
            else:
                cluster.drop_leftovers(ranges)
        consumed = sent[-1][0].consumed if sent else ranges.consumed
        if consumed is None:  # read while another run completed it
            raise self._rival_error()
        kinds = ["whole" if range_.since is None else "changes" for range_, _ in sent]
        figures = [sum(numbers) for numbers in zip(Written(0, 0), *(written for _, written in sent), strict=True)]
        return self._describe(consumed, max(kinds, default=None), Written(*figures))

    def equals_table(self) -> Finding:
        """Compare key, digest and NULLs of each current row with the version of the table that the target has."""
        with open_cluster(self.settings, self.sink) as cluster:
            for _ in range(_LOOKS):
                ranges, source = cluster.read_ranges(), self.source()
                state = self._state_of(ranges, source)
                if state.consumption.version is None or not state.consumption.has_source:
                    return self._finding(None)
                differences = self._compare(cluster, as_of(source, state.consumption.version))
                if cluster.read_ranges()[:2] == ranges[:2]:  # else a run sent meanwhile
                    break
        return self._finding(state.consumption.version, differences, "key, digest and NULLs of every row equal")

    def replace_versions(self, run: str = "") -> SinkUpdate | None:
        """Send all rows into a new table after an erasure: the old one has each value that a row had."""
        return self.update(run, whole=True) if self.look().has_rows else None

    def statements(self) -> list[str]:
        """What an administrator and the first run do, and ways to read the rows, without connecting."""
        source = self.source()
        return kql.statements(self.sink.to.name, self.sink.name, column_types(source), source.ledger.uri)

    def _state_of(self, ranges: TargetRanges, source: SourceRows) -> TargetState:
        has_other_columns = ranges.complete is not None and ranges.complete.columns != columns_text(source)
        state = self._state(source.ledger, ranges.consumed, has_other_columns=has_other_columns)
        pending = ranges.pending
        if not state.reason and ranges.has_rivals:
            state = state._replace(reason="two runs recorded the same range")
        if not state.reason and pending and pending.since is not None and not self._is_readable(pending, source):
            state = state._replace(reason="the changes that a run began to send are no longer there")
        return state._replace(has_rows=ranges.newest_ordinal > 0)

    def _is_readable(self, range_: Range, source: SourceRows) -> bool:
        """Whether the table still has the version of a range, with the columns that the range has."""
        has_other_columns = range_.columns != columns_text(source)
        return self._state(source.ledger, range_.consumed, has_other_columns=has_other_columns).reason is None

    def _can_repeat(self, pending: Range, ranges: TargetRanges, source: SourceRows, reason: str | None) -> bool:
        """Whether a run can send the pending range as it was begun; with a ``reason``, only if it has all rows now."""
        if ranges.has_rivals or not self._is_readable(pending, source):
            return False
        if pending.since is None:
            return not reason or pending.version == source.ledger.rows_version
        return not reason and ranges.consumed is not None

    def _begin(self, cluster: Cluster, ranges: TargetRanges, reason: str | None, run: str) -> TargetRanges:
        """Record which range is sent next, if there is one. Nothing is recorded if a row of it cannot be held."""
        source = self.source()
        state = self._state_of(ranges, source)
        state = state._replace(reason=reason or state.reason)
        if not state.reason and state.consumption.is_current:
            return ranges._replace(pending=None)
        self.announce(state)
        if state.reason and ranges.generation is not None:
            cluster.require_no_views()
        consumed, since = version_to_consume(source.ledger), None if state.reason else state.consumption.version
        facts = (consumed.table_id, since, consumed.version, consumed.commit or "", columns_text(source), PART_BYTES)
        range_ = Range(self.sink.to.name, ranges.newest_ordinal + 1, kql.SENDING, *facts, run)
        for _ in read_parts(source, range_):  # also refuses a row that the service cannot hold
            pass
        for command in () if ranges.complete else (kql.CREATE_PROGRESS, kql.KEEP_PROGRESS, kql.KEEP_TAGS):
            cluster.run(command)
        return cluster.record(range_)

    def _send(self, cluster: Cluster, range_: Range, ranges: TargetRanges) -> Written:
        """Send a range that is recorded, and record that it is complete; also if another run does so at this moment."""
        generation, written, newest = ranges.generation, Written(0, 0), self.source()
        if not self._is_readable(range_, newest):
            raise self._rival_error()
        source = as_of(newest, range_.version)
        if range_.since is not None:
            written = self._send_parts(cluster, range_, source, kql.mapping_name(generation or 0))
        elif generation != range_.ordinal:  # else the new table has its name already
            for command in kql.create_table(range_.table, self.sink.name, range_.ordinal, column_types(source)):
                cluster.run(command)
            written = self._send_parts(cluster, range_, source, kql.mapping_name(range_.ordinal))
            self._rename(cluster, range_)
        cluster.drop_leftovers(cluster.record(range_._replace(state=kql.COMPLETE)))
        return written

    def _send_parts(self, cluster: Cluster, range_: Range, source: SourceRows, mapping: str) -> Written:
        present, blobs = _present_parts(cluster, range_), dict[int, str]()
        written = deleted = count = 0
        for number, part in enumerate(_same_parts(source, range_)):
            if number not in present:
                blobs[number] = cluster.queue(range_, mapping, number, part.lines)
            written, deleted, count = written + part.written, deleted + part.deleted, number + 1
        self._wait(cluster, range_, count, blobs)
        (count_row,) = cluster.run(kql.count_rows(range_))
        if count_row["Count"] != written + deleted:
            fact = f"{range_.table} has {count_row['Count']:,} changes instead of {written + deleted:,}"
            if range_.since is None:
                cluster.run(kql.drop_tables([range_.table]))
                raise TableError(f"Sink {self.sink.name}: {fact}", action="Run it again: it sends all rows again.")
            raise ChangesGoneError(fact)
        return Written(written, deleted)

    def _wait(self, cluster: Cluster, range_: Range, count: int, blobs: Mapping[int, str]) -> None:
        """Wait until the service has ingested all parts."""
        end, pause = monotonic() + PATIENCE, 1.0
        while missing := {*range(count)} - _present_parts(cluster, range_):
            sources = [blobs[number] for number in missing & blobs.keys()]
            for row in cluster.run(kql.show_failures(range_.table)):
                if any(source in row["IngestionSourcePath"] for source in sources):
                    details = cluster.hide_secrets(row["Details"])
                    message = f"Sink {self.sink.name}: the service could not ingest a part: {details}"
                    raise TableError(message, action="Nothing is lost. Correct that, and run it again.")
            if monotonic() > end:
                message = (
                    f"Sink {self.sink.name}: {len(missing)} of {count} parts were not ingested in {PATIENCE} seconds"
                )
                raise TableError(message, action="Nothing is lost. Run it again: it waits for the same parts.")
            sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _rename(self, cluster: Cluster, range_: Range) -> None:
        """Give the new table the name of the target, unless another run did so."""
        ranges = cluster.read_ranges()
        if ranges.newest_ordinal != range_.ordinal:
            cluster.run(kql.drop_tables([range_.table]))  # it may have rows that were erased meanwhile
            raise self._rival_error()
        if ranges.generation != range_.ordinal:
            cluster.run(kql.rename(range_, replaces=ranges.generation is not None))

    def _rival_error(self) -> TableError:
        return TableError(f"Sink {self.sink.name}: another run sends other rows", action="Run it again later.")

    def _compare(self, cluster: Cluster, source: SourceRows) -> Differences:
        with closing(TopicContents(self.settings)) as contents, source.open(None) as batches:
            name = self.sink.to.name
            (count_row,) = cluster.run(f"{kql.entity(name)} | count")
            pages = count_row["Count"] // _PAGE + 1
            for page in range(pages):
                rows = cluster.run(kql.current_digests(name, source.ledger.rows_version, (page, pages)))
                contents.add_digests([(row["_key"].encode(), row["_digest"].encode()) for row in rows])
            contents.add_rows((change.key, change.value) for change in changes_of(batches, source))
            (null_row,) = cluster.run(kql.count_other_nulls(name, source.ledger.rows_version, column_types(source)))
            differences = contents.count_differences()
            return differences._replace(different=max(differences.different, null_row["Count"]))


def _same_parts(source: SourceRows, range_: Range) -> Iterator[Part]:
    """Yield the parts of a range that was read before. ``ChangesGoneError`` if they can no longer be read."""
    try:
        yield from read_parts(source, range_)
    except TableError as error:
        raise ChangesGoneError(error.what) from None


def _present_parts(cluster: Cluster, range_: Range) -> set[int]:
    """Return the numbers of the parts that the service has ingested; merged extents have the tags of all."""
    numbers = re.compile(re.escape(f"ingest-by:{range_.tag_prefix}") + r"(\d+)")
    return {int(number) for row in cluster.run(kql.show_parts(range_)) for number in numbers.findall(row["Tags"])}
