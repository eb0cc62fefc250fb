"""One history for what decides between records: each fact has an hour of its own in it, two batches and base rows."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.batches import Outcome
from lakehouse.ingest.load import BaseLoad, load_base
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, counts, record
from lakehouse_tests.helpers.tables.base_files import base_folder
from lakehouse_tests.helpers.tables.rows import Origin, Row, hour_of, origin, rows_of
from lakehouse_tests.real.facts import BASE, FACTS, FIRST, HOURS, OLDEST, SECOND, base_values, lines

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
    """A table after two batches and two loads of base files, and what was seen on the way."""

    stream: Stream
    loads: list[BaseLoad] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    after_first: dict[str, Row] = field(default_factory=dict)
    places: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def send(self, round_: int) -> None:
        """Send the records of a round, and note where each went."""
        partition = PARTITION[round_]
        start = sum(place[0] == partition for places in self.places.values() for place in places)
        sent = lines(round_)
        self.stream.send(*(line for _, line in sent), partition=partition)
        for offset, (name, _) in enumerate(sent, start):
            self.places.setdefault(name, []).append((partition, offset))

    def load(self, folder: Path, number: int) -> None:
        stream = self.stream
        older: dict[str, float | None] = dict.fromkeys(base_values(number), -9.0)  # the name of its file comes first
        for name, values in (("a.json", older), ("b.json", base_values(number))):
            base_folder(folder, values, name, missing=["humidity", "revision"])
        self.loads.append(load_base(stream.context, folder))

    def rows(self) -> dict[str, Row]:
        found = rows_of(self.stream.settings, self.stream.table.name)
        by_hour = {hour_of(row): row for row in found}
        assert len(by_hour) == len(found), "a key stands twice"
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
    history = History(Stream.create(spark, broker, columns=columns, version="revision"))
    stream = history.stream
    history.send(OLDEST)
    history.send(FIRST)
    stream.send(*MALFORMED.values(), partition=1)
    history.outcomes += stream.merge(until={0: len(lines(FIRST)), 1: len(MALFORMED), 2: 0})
    history.after_first = history.rows()
    history.load(tmp_path_factory.mktemp("base"), 0)
    history.send(SECOND)
    history.outcomes += stream.merge()
    history.load(tmp_path_factory.mktemp("base"), 1)
    history.outcomes += stream.merge()
    return history


@pytest.mark.invariant(4, 5, 6, 13)
@pytest.mark.parametrize("name", FACTS)
def test_of_each_key_the_newest_is_in_the_table(history: History, name: str) -> None:
    fact, row = FACTS[name], history.rows()[HOURS[name]]
    assert row["temperature_2m"] == fact.value
    assert {column: row[column] for column, _ in fact.columns} == dict(fact.columns)
    for came, found in ((fact.row, origin(row)), (fact.kept, origin(row, "temperature_2m"))):
        assert found[1:] == expected(history, name, came)[1:]
        assert (found.time is None) == (found.position is None)


def expected(history: History, name: str, came: Any) -> Origin:
    if came is None:
        return Origin(None, None, None, None)
    if came == BASE:
        return Origin(None, None, None, history.outcomes[-1].entry.commit.number)
    partition, offset = history.places[name][came]
    return Origin(None, partition, offset, None)


@pytest.mark.invariant(5)
def test_a_kept_value_that_is_merged_later_was_not_there_before(history: History) -> None:
    row = history.after_first[HOURS["a kept value of an older record that is merged later"]]
    assert (row["temperature_2m"], origin(row, "temperature_2m")) == (None, (None, None, None, None))


@pytest.mark.invariant(6)
def test_base_files_are_loaded_in_the_order_of_their_names_and_each_load_is_a_version(history: History) -> None:
    based = len(base_values(0))
    assert [(load.rows, load.duplicate) for load in history.loads] == [(2 * based, based)] * 2
    assert [(load.inserted, load.updated) for load in history.loads] == [(based, 0), (0, based)]
    assert history.loads[0].version < history.loads[1].version


@pytest.mark.invariant(7)
def test_every_record_of_every_commit_is_accounted_for(history: History) -> None:
    first, based, second, again = (counts(outcome.entry) for outcome in history.outcomes)
    keys = {HOURS[name] for name, _ in lines(FIRST)}
    read = len(lines(FIRST)) + len(MALFORMED)
    duplicate = len(lines(FIRST)) - len(keys)
    new = len(keys)
    assert first == dict(read=read, rejected=len(MALFORMED), duplicate=duplicate, inserted=new, updated=0, stale=0)
    # two of the base rows meet a record, of which one has no value of its own
    assert based == dict(read=4, rejected=0, duplicate=0, inserted=2, updated=1, stale=1)
    # stale are an older record, and one without a version
    sent = len(lines(SECOND)) + len(lines(OLDEST))
    assert second == dict(read=sent, rejected=0, duplicate=0, inserted=0, updated=sent - 2, stale=2)
    assert again == dict(read=4, rejected=0, duplicate=0, inserted=0, updated=2, stale=2)
    history.stream.assert_accounted()


@pytest.mark.invariant(7)
def test_the_lag_is_told_before_and_after_each_commit(history: History) -> None:
    (first, _, second, _), left = history.outcomes, len(lines(OLDEST))
    assert (first.lag_before - first.lag_after, first.lag_after) == (len(lines(FIRST)) + len(MALFORMED), left)
    assert (second.lag_before, second.lag_after) == (left + len(lines(SECOND)), 0)


@pytest.mark.invariant(8)
def test_each_malformed_kind_is_kept_with_its_bytes_and_its_own_reason(history: History) -> None:
    assert history.stream.rejected() == [(1, number, reason) for number, reason in enumerate(MALFORMED)]
    kept = history.stream.sql("SELECT value FROM {rejected} ORDER BY position.position")
    assert [bytes(value) if value is not None else None for (value,) in kept] == list(MALFORMED.values())


@pytest.mark.invariant(6)
def test_loading_the_same_base_files_again_changes_nothing(history: History) -> None:
    stream = history.stream
    again = load_base(stream.context)
    last = history.loads[-1]
    assert (again.folder, again.version, again.changed) == (last.folder, last.version, False)
    assert stream.merge() == []


@pytest.mark.invariant(3)
def test_a_replay_of_everything_writes_no_data_file_and_moves_no_progress(history: History) -> None:
    stream = history.stream
    rows, files, progress = history.rows(), history.files(), stream.ledger.progress
    rejected = rows_of(stream.settings, stream.table.rejected_name)
    (outcome,) = stream.replay()
    assert outcome.entry.commit.kind == "replay"
    assert counts(outcome.entry)["stale"] == outcome.entry.metrics.source_rows > 0
    assert (history.rows(), history.files(), stream.ledger.progress) == (rows, files, progress)
    assert rows_of(stream.settings, stream.table.rejected_name) == rejected
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant(3)
def test_any_order_of_ranges_gives_the_same_rows(history: History) -> None:
    stream, rows = history.stream, history.rows()
    for ranges in ([Range(0, 4, 30), Range(2, 0, 1)], [Range(0, 2, 9)]):
        replay(stream.context, ranges)
        assert history.rows() == rows
    stream.assert_accounted()


@pytest.mark.invariant(2, 3)
def test_any_split_into_batches_gives_the_same_rows(history: History) -> None:
    stream = history.stream
    other = replace(stream, table=replace(stream.table, name=f"{stream.table.name}_again"))
    *full, rest = other.merge(max_records=20)
    assert [outcome.plan.span for outcome in full] == [20] * len(full)
    assert len(full) == 2 and 0 < rest.plan.span < 20
    found, expected = replace(history, stream=other).rows(), history.rows()
    streamed = {HOURS[name] for name, fact in FACTS.items() if not fact.base}
    assert {hour: found[hour] for hour in streamed} == {hour: expected[hour] for hour in streamed}
    other.assert_accounted()
