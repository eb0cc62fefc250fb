"""Generated records: pure functions of seed, partition and position, and a clock that says how many exist."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Generated, StreamTable
from lakehouse.declaration.sources import Choice, Counter, Hash
from lakehouse.decoding.generated import microseconds_of, value_writer
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import lag_of, plan_batch
from lakehouse.ledger.positions import Plan, Progress
from lakehouse.settings import Settings
from lakehouse.sources.generated_records import GeneratedSource, count_at, ends_of, newest_records, start_of, state_of
from lakehouse_tests.helpers.sensors import MERGED, write_log

SECOND = 1_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)
START_MICROSECONDS = int(START.timestamp()) * SECOND
SLOW = Generated(rate=10, partitions=3, since=START)
numbers = st.integers(0, 10**12)
rates = st.integers(1, 10**9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of this machine, in microseconds since 1970: its only item can be set."""
    times = [START_MICROSECONDS]
    monkeypatch.setattr("lakehouse.sources.generated_records.read_clock", lambda: times[0])
    return times


def source_of(folder: Path, generated: Generated) -> GeneratedSource:
    columns = [Column("hash", "BIGINT", "Hash.", required=True)]
    table = StreamTable(name="hashes", doc="Hashes.", columns=columns, key=["hash"], source=generated)
    return GeneratedSource(Settings(home=folder, _env_file=None), table, generated)


def after(plan: Plan) -> Ledger:
    """The ledger of the table after a batch that read a plan."""
    fields = {**MERGED, "source": plan.source, "stream": plan.stream, "progress": plan.progress.positions}
    entry = Entry(1, datetime.now(UTC), Commit(**fields), Metrics())
    return Ledger("hashes", exists=True, version=1, transaction=1, entries=(entry,))


@pytest.mark.invariant("3.6")
def test_a_record_has_the_same_bytes_in_every_process() -> None:
    fields = {"md5": Hash(), "value": Counter(), "hash": Counter(modulo=7), "shop": Choice(["a", None, 1.5])}
    program = (
        "from lakehouse.decoding.generated import *\n"
        f"for number in (0, 1, 12345678901): print(value_writer({fields!r}, 5)(number).decode())"
    )
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert output.splitlines() == [
        '{"md5": "b870077fc088092727d6666d48388181", "value": 0, "hash": 0, "shop": "a"}',
        '{"md5": "46fcdc79419911b93412e87b508ed41f", "value": 1, "hash": 1, "shop": 1.5}',
        '{"md5": "14d53f79d57b71a682876220ed30c2ef", "value": 12345678901, "hash": 3, "shop": null}',
    ]


def test_a_seed_and_a_name_give_other_hashes() -> None:
    first, second = (value_writer({"a": Hash(), "b": Hash()}, seed)(0) for seed in (0, 1))
    texts = {part for value in (first, second) for part in value.split(b'"') if len(part) == 32}
    assert len(texts) == 4


@given(count=numbers, partitions=st.integers(1, 50))
def test_every_record_has_one_place(count: int, partitions: int) -> None:
    ends = ends_of(count, partitions)
    assert sum(ends.values()) == count
    last = count - 1
    assert count == 0 or ends[last % partitions] == last // partitions + 1


@given(number=numbers, rate=rates)
def test_a_record_exists_once_its_time_has_passed(number: int, rate: int) -> None:
    generated = Generated(rate=rate)
    time = microseconds_of(number, rate)
    assert time == number * SECOND // rate
    assert count_at(generated, 5, time + 5) <= number < count_at(generated, 5, time + 5 + SECOND // rate + 2)


@given(now=st.integers(0, 2**63), later=st.integers(0, 2**63), rate=rates)
def test_records_never_become_fewer_and_positions_fit(now: int, later: int, rate: int) -> None:
    first, second = (count_at(Generated(rate=rate), 0, time) for time in sorted((now, later)))
    assert 0 <= first <= second < 2**63


def test_there_are_no_more_records_than_declared_and_none_before_the_start() -> None:
    assert count_at(SLOW, 2 * SECOND, SECOND) == 0
    assert count_at(replace(SLOW, count=25), 0, 2 * SECOND) == 20
    assert count_at(replace(SLOW, count=25), 0, 3 * SECOND) == 25


@pytest.mark.invariant("2.9")
@pytest.mark.parametrize("seconds", [9, 0, -86_400], ids=["a bit", "to the start", "before the start"])
def test_a_clock_that_goes_back_takes_nothing_away(tmp_path: Path, clock: list[int], seconds: int) -> None:
    source = source_of(tmp_path, SLOW)
    clock[0] += 10 * SECOND
    plan = plan_batch(source.read_state(Ledger("hashes"), 1), None)
    assert plan.span == 100
    ledger = after(plan)
    clock[0] = START_MICROSECONDS + seconds * SECOND
    state = source.read_state(ledger, 1)
    next_plan = plan_batch(state, ledger.progress)
    assert (state.end, next_plan.span, next_plan.gap) == (plan.progress.positions, 0, None)
    clock[0] = START_MICROSECONDS + 11 * SECOND
    assert sum(lag_of(source.read_state(ledger, 1), ledger.progress).values()) == 10


def test_the_start_is_that_of_the_table_and_then_the_recorded_one(tmp_path: Path, clock: list[int]) -> None:
    source = source_of(tmp_path, replace(SLOW, since=None))
    state = source.read_state(Ledger("hashes"), 1)
    assert (sum(state.end.values()), start_of(state.source, source.generated)) == (0, None)
    assert state.starts == {0: 0, 1: 0, 2: 0}  # so that a run is requested, which creates the table
    write_table(source, created_at=START_MICROSECONDS // 1_000)
    clock[0] += 2 * SECOND
    state = source.read_state(Ledger("hashes"), 1)
    assert (sum(state.end.values()), start_of(state.source, source.generated)) == (20, START_MICROSECONDS)
    ledger = after(plan_batch(state, None))
    write_table(source, created_at=0)
    assert source.read_state(ledger, 1).source == state.source


def write_table(source: GeneratedSource, created_at: int) -> None:
    folder = Path(source.settings.table_uri("hashes"), "_delta_log")
    write_log(folder, Commit(**MERGED), "hashes")
    log = folder / f"{0:020}.json"
    log.write_text(log.read_text().replace('"partitionColumns"', f'"createdTime": {created_at}, "partitionColumns"'))


@pytest.mark.parametrize(
    "changes",
    [{"rate": 11}, {"partitions": 4}, {"seed": 1}, {"fields": {"hash": Counter()}}, {"since": datetime.now(UTC)}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_generator_is_another_source(changes: dict[str, object]) -> None:
    state = state_of(SLOW, START_MICROSECONDS, START_MICROSECONDS + SECOND, None)
    progress = Progress(state.source, state.end)
    changed = replace(SLOW, **changes)  # type: ignore[arg-type]
    start = int((changed.since or START).timestamp() * SECOND)
    plan = plan_batch(state_of(changed, start, start + SECOND, progress), progress)
    assert plan.gap and "Another generator was merged" in plan.gap.facts[0]


def test_more_records_and_a_list_for_a_tuple_are_the_same_source() -> None:
    generated = replace(SLOW, fields={"shop": Choice(["a", "b"])})
    changed = replace(SLOW, fields={"shop": Choice(("a", "b"))}, count=10)
    assert generated.digest == changed.digest


def test_the_newest_records_are_those_with_the_greatest_numbers() -> None:
    state = state_of(SLOW, START_MICROSECONDS, START_MICROSECONDS + SECOND, None)
    newest = newest_records(SLOW, state, 4)
    assert [(record.partition, record.position) for record in newest] == [(0, 2), (1, 2), (2, 2), (0, 3)]
    write = value_writer(SLOW.fields, SLOW.seed)
    assert [record.value for record in newest] == [write(number) for number in (6, 7, 8, 9)]
    assert newest[-1].time == START.replace(microsecond=900_000)
