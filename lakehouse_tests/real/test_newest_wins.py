"""Which record wins: one history of two batches and base rows, in which each fact has its own hour."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.load import BaseLoad, load_base
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, counts, record
from lakehouse_tests.helpers.tables.base_files import base_folder
from lakehouse_tests.helpers.tables.rows import Origin, Row, hour_of, origin, rows_of
from lakehouse_tests.real.facts import BASE, FACTS, FIRST, HOURS, OLDEST, SECOND, base_values, records_of_round

PARTITION = {OLDEST: 2, FIRST: 0, SECOND: 0}
MALFORMED = {
    "truncated": b'{"latitude": 13.0, "longi',
    "invalid_json": b"temperature is 20",
    "not_an_object": b"[1, 2]",
    "empty_value": b"",
    "tombstone": None,
    "missing_field": record(latitude=ABSENT),
    "null_field": record(longitude=None),
    "out_of_range": record(latitude=91),
    "wrong_type": record(temperature_2m="warm"),
    "wrong_time_format": record(time="2023-01-01 00:00"),
    "no_such_date": record(time="2023-02-30T00:00"),
    "not_finite": record().replace(b"20.0", b"NaN"),
    "trailing_bytes": record() + b" junk",
    "duplicate_name": record()[:-1] + b', "latitude": 14.0}',
    "invalid_utf8": b'{"latitude": "\xff"}',
}


@dataclass
class History:
    """A table after two batches and two loads of base files, with the results of each step."""

    stream: Stream
    loads: list[BaseLoad] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rows_after_first: dict[str, Row] = field(default_factory=dict)
    positions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def send(self, round_: int) -> None:
        """Send the records of a round and store the position of each."""
        partition = PARTITION[round_]
        start = sum(position[0] == partition for positions in self.positions.values() for position in positions)
        records = records_of_round(round_)
        self.stream.send(*(value for _, value in records), partition=partition)
        for offset, (name, _) in enumerate(records, start):
            self.positions.setdefault(name, []).append((partition, offset))

    def load(self, folder: Path, number: int) -> None:
        stream = self.stream
        older_values: dict[str, float | None] = dict.fromkeys(base_values(number), -9.0)  # its file name sorts first
        for name, values in (("a.json", older_values), ("b.json", base_values(number))):
            base_folder(folder, values, name, missing_names=["humidity", "revision"])
        self.loads.append(load_base(stream.context, folder))

    def rows(self) -> dict[str, Row]:
        rows = rows_of(self.stream.settings, self.stream.table.name)
        by_hour = {hour_of(row): row for row in rows}
        assert len(by_hour) == len(rows), "a key has two rows"
        return by_hour

    def files(self) -> set[Path]:
        return {path for path in Path(self.stream.uri).rglob("*.parquet") if "_delta_log" not in path.parts}


@pytest.fixture(scope="module")
def history(spark, broker, tmp_path_factory) -> History:
    columns = [
        *temperatures.columns,
        Column("humidity", "DOUBLE", doc="Percent."),
        Column("revision", "BIGINT", doc="Revision of the reading."),
    ]
    history = History(Stream.create(spark, broker, columns=columns, version=BY_REVISION))
    stream = history.stream
    history.send(OLDEST)
    history.send(FIRST)
    stream.send(*MALFORMED.values(), partition=1)
    history.outcomes += stream.merge(until={0: len(records_of_round(FIRST)), 1: len(MALFORMED), 2: 0})
    history.rows_after_first = history.rows()
    history.load(tmp_path_factory.mktemp("base"), 0)
    history.send(SECOND)
    history.outcomes += stream.merge()
    history.load(tmp_path_factory.mktemp("base"), 1)
    history.outcomes += stream.merge()
    return history


@pytest.mark.invariant("4.1", "4.2", "5.1", "5.2", "6.1", "6.2", "6.3", "13.1")
@pytest.mark.parametrize("name", FACTS)
def test_the_newest_record_of_each_key_is_in_the_table(history: History, name: str) -> None:
    fact, row = FACTS[name], history.rows()[HOURS[name]]
    assert row["temperature_2m"] == fact.value
    assert {column: row[column] for column, _ in fact.columns} == dict(fact.columns)
    for index, actual in ((fact.row_origin, origin(row)), (fact.kept_origin, origin(row, "temperature_2m"))):
        assert actual[1:] == expected_origin(history, name, index)[1:]
        assert (actual.time is None) == (actual.position is None)


def expected_origin(history: History, name: str, index: Any) -> Origin:
    if index is None:
        return Origin(None, None, None, None)
    if index == BASE:
        return Origin(None, None, None, history.outcomes[-1].entry.commit.number)
    partition, offset = history.positions[name][index]
    return Origin(None, partition, offset, None)


@pytest.mark.invariant("5.1")
def test_a_kept_value_that_is_merged_later_was_missing_before(history: History) -> None:
    row = history.rows_after_first[HOURS["a kept value of an older record that is merged later"]]
    assert (row["temperature_2m"], origin(row, "temperature_2m")) == (None, (None, None, None, None))


@pytest.mark.invariant("6.3")
def test_base_files_are_loaded_in_the_order_of_their_names_and_each_load_is_a_version(history: History) -> None:
    base_rows = len(base_values(0))
    assert [(load.rows, load.superseded) for load in history.loads] == [(2 * base_rows, base_rows)] * 2
    assert [(load.inserted, load.updated) for load in history.loads] == [(base_rows, 0), (0, base_rows)]
    assert history.loads[0].version < history.loads[1].version


@pytest.mark.invariant("7.1")
def test_every_record_of_every_commit_is_accounted_for(history: History) -> None:
    first, base_counts, second, second_base = (counts(outcome.entry) for outcome in history.outcomes)
    keys = {HOURS[name] for name, _ in records_of_round(FIRST)}
    read = len(records_of_round(FIRST)) + len(MALFORMED)
    superseded_count = len(records_of_round(FIRST)) - len(keys)
    inserted = len(keys)
    assert first == dict(
        read=read, rejected=len(MALFORMED), superseded=superseded_count, inserted=inserted, updated=0, stale=0
    )
    # two of the base rows have a record with the same key, one of them without a value
    assert base_counts == dict(read=4, rejected=0, superseded=0, inserted=2, updated=1, stale=1)
    # the stale records are an older one and one without a version
    sent_count = len(records_of_round(SECOND)) + len(records_of_round(OLDEST))
    assert second == dict(read=sent_count, rejected=0, superseded=0, inserted=0, updated=sent_count - 2, stale=2)
    assert second_base == dict(read=4, rejected=0, superseded=0, inserted=0, updated=2, stale=2)
    history.stream.assert_accounted()


def test_the_lag_is_reported_before_and_after_each_commit(history: History) -> None:
    (first, _, second, _), waiting_count = history.outcomes, len(records_of_round(OLDEST))
    assert (first.lag_before - first.lag_after, first.lag_after) == (
        len(records_of_round(FIRST)) + len(MALFORMED),
        waiting_count,
    )
    assert (second.lag_before, second.lag_after) == (waiting_count + len(records_of_round(SECOND)), 0)


@pytest.mark.invariant("8.1", "13.3")
def test_each_kind_of_malformed_record_is_stored_with_its_bytes_and_reason(history: History) -> None:
    assert history.stream.rejected() == [(1, number, reason) for number, reason in enumerate(MALFORMED)]
    stored_values = history.stream.sql("SELECT value FROM {rejected} ORDER BY position.position")
    assert [bytes(value) if value is not None else None for (value,) in stored_values] == list(MALFORMED.values())


@pytest.mark.invariant("6.4")
def test_loading_the_same_base_files_again_changes_nothing(history: History) -> None:
    stream = history.stream
    second_load = load_base(stream.context)
    last = history.loads[-1]
    assert (second_load.folder, second_load.version, second_load.has_changes) == (last.folder, last.version, False)
    assert stream.merge() == []


@pytest.mark.invariant("3.1", "3.4", "8.2")
def test_a_replay_of_everything_writes_no_data_file_and_moves_no_progress(history: History) -> None:
    stream = history.stream
    rows, files, progress = history.rows(), history.files(), stream.ledger.progress
    rejected_rows = rows_of(stream.settings, stream.table.rejected_name)
    (outcome,) = stream.replay()
    assert outcome.entry.commit.kind == "replay"
    assert counts(outcome.entry)["stale"] == outcome.entry.metrics.source_rows > 0
    assert (history.rows(), history.files(), stream.ledger.progress) == (rows, files, progress)
    assert rows_of(stream.settings, stream.table.rejected_name) == rejected_rows
    stream.assert_accounted()


@pytest.mark.invariant("3.3")
@pytest.mark.slow
def test_any_order_of_ranges_gives_the_same_rows(history: History) -> None:
    stream, rows = history.stream, history.rows()
    for ranges in ([Range(0, 4, 30), Range(2, 0, 1)], [Range(0, 2, 9)]):
        replay(stream.context, ranges)
        assert history.rows() == rows
    stream.assert_accounted()


@pytest.mark.invariant("3.3", "5.1")
@pytest.mark.slow
def test_any_split_into_batches_gives_the_same_rows(history: History) -> None:
    stream = history.stream
    other_stream = replace(stream, table=replace(stream.table, name=f"{stream.table.name}_again"))
    *full_batches, last_batch = other_stream.merge(max_records=20)
    assert [outcome.plan.span for outcome in full_batches] == [20] * len(full_batches)
    assert len(full_batches) == 2 and 0 < last_batch.plan.span < 20
    rows, expected_rows = replace(history, stream=other_stream).rows(), history.rows()
    streamed_hours = {HOURS[name] for name, fact in FACTS.items() if not fact.base}
    assert {hour: rows[hour] for hour in streamed_hours} == {hour: expected_rows[hour] for hour in streamed_hours}
    other_stream.assert_accounted()
