"""The promises of a declaration: how long a record waits and how many wait, measured by the ticks of the sensor."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import RemoteInstigatorOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorType, SensorInstigatorData

from lakehouse.declaration import Promise
from lakehouse.defs.freshness import FRESH, HELD_CHECK, LAG, promise_checks, report_freshness, report_held, report_lag
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.waiting import SensorCursor, Waiting, read_cursor
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import TopicState
from lakehouse.ledger.planning import plan_batch
from lakehouse.ledger.positions import HeldPart, Progress, SourceId
from lakehouse.local.embedded import draw_port
from lakehouse.settings import Settings
from lakehouse_tests.helpers.code_locations import check_results, repository_of

SOURCE, OTHER = SourceId("kafka", "c/t"), SourceId("kafka", "c/other")
FRESH_LIMIT = timedelta(minutes=5)
ENTRY = CatalogEntry(replace(temperatures, promise=Promise(fresh=FRESH_LIMIT, max_lag=10)))
START = 1_700_000_000.0


class Ticks:
    """The ticks of a sensor on one partition: its cursor, and the results of the checks, oldest first."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.cursor = SensorCursor()

    def see(
        self, at: float, merged: int, end: int, source: SourceId = SOURCE, held_parts: Sequence[HeldPart] = ()
    ) -> None:
        state = TopicState("prices", source, {0: 0}, {0: end}, held_parts=tuple(held_parts))
        waiting = Waiting(((state, plan_batch(state, Progress(source, {0: merged}))),))
        self.cursor = SensorCursor.parse(self.cursor.after(waiting, START + at, FRESH_LIMIT).text)
        report_freshness(self.instance, ENTRY, self.cursor, START + at)
        report_lag(self.instance, ENTRY, waiting.span + waiting.held_count)
        report_held(self.instance, ENTRY, waiting, self.cursor, START + at)

    def see_nothing(self, *times: float) -> None:
        for at in times:
            self.cursor = SensorCursor.parse(self.cursor.without_sight(START + at).text)
            report_freshness(self.instance, ENTRY, self.cursor, START + at)

    def results(self, check: str = FRESH) -> list[bool]:
        return [passed for passed, _ in check_results(self.instance, ENTRY.merged_key, check)]


@pytest.fixture
def ticks() -> Iterator[Ticks]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Ticks(instance)


def test_a_record_that_waits_longer_than_promised_fails_the_check_until_it_is_merged(ticks: Ticks) -> None:
    ticks.see(0, merged=5, end=6)
    ticks.see(299, merged=5, end=6)
    assert ticks.results() == [True]
    ticks.see(301, merged=5, end=6)
    ticks.see(400, merged=5, end=6)
    assert ticks.results() == [True, False]
    ticks.see(405, merged=6, end=6)
    assert ticks.results() == [True, False, True]


def test_a_lag_that_moves_on_passes(ticks: Ticks) -> None:
    for minute in range(30):
        ticks.see(minute * 60, merged=minute, end=minute + 2)
    assert ticks.results() == [True]


def test_records_behind_a_merged_one_keep_their_own_wait(ticks: Ticks) -> None:
    for minute in range(6):
        ticks.see(minute * 60, merged=0, end=minute + 1)
    ticks.see(365, merged=1, end=6)
    assert ticks.results() == [True, False]
    ticks.see(370, merged=2, end=6)
    assert ticks.results() == [True, False, True]


def test_after_a_long_stop_the_first_merged_records_do_not_hide_the_others(ticks: Ticks) -> None:
    for minute in range(2 * 60):
        ticks.see(minute * 60, merged=0, end=minute + 1)
    assert len(ticks.cursor.sightings) <= 30
    ticks.see(2 * 3600, merged=60, end=2 * 60)
    assert ticks.results() == [True, False]


def test_a_quiet_topic_passes(ticks: Ticks) -> None:
    for hour in range(12):
        ticks.see(hour * 3600, merged=6, end=6)
    assert ticks.results() == ticks.results(LAG) == [True]


def test_a_silent_broker_fails_the_check_even_if_it_never_answered(ticks: Ticks) -> None:
    ticks.see_nothing(*range(0, 301, 5))
    assert ticks.results() == [True]
    ticks.see_nothing(305)
    assert ticks.results() == [True, False]
    ticks.see(310, merged=6, end=6)
    ticks.see_nothing(*range(315, 616, 5))
    assert ticks.results() == [True, False, True, False]


def test_the_silence_of_a_broker_counts_only_while_ticks_run(ticks: Ticks) -> None:
    ticks.see(0, merged=6, end=6)
    ticks.see_nothing(8 * 3600, 8 * 3600 + 5)
    assert ticks.results() == [True]


@pytest.mark.invariant("12.11")
def test_the_silence_of_a_broker_counts_if_ticks_are_far_apart(ticks: Ticks) -> None:
    ticks.see(0, merged=6, end=6)
    ticks.see_nothing(90, 180, 270, 360)
    assert ticks.results() == [True]
    ticks.see_nothing(450)
    assert ticks.results() == [True, False]


@pytest.mark.invariant("12.11")
def test_a_new_partition_does_not_make_the_records_of_the_others_younger(ticks: Ticks) -> None:
    ticks.see(0, merged=5, end=6)
    ends = {0: 6, 1: 3}
    state = TopicState("prices", SOURCE, {0: 0, 1: 0}, ends)
    waiting = Waiting(((state, plan_batch(state, Progress(SOURCE, {0: 5}))),))
    assert ticks.cursor.after(waiting, START + 400, FRESH_LIMIT).sightings[0].at == START


@pytest.mark.invariant("12.10")
def test_what_no_batch_can_read_waits_until_it_is_read(ticks: Ticks) -> None:
    grows = HeldPart("x.json", "not unchanged for 30 seconds yet")
    ticks.see(0, merged=6, end=6, held_parts=[grows])
    ticks.see(295, merged=6, end=6, held_parts=[HeldPart("y.json", "waits for x.json"), grows])
    assert (ticks.results(), ticks.results(LAG)) == ([True], [True])
    ticks.see(305, merged=6, end=6, held_parts=[grows])
    ticks.see(310, merged=6, end=6, held_parts=[HeldPart(f"{number}.json", "waits") for number in range(11)])
    assert (ticks.results(), ticks.results(LAG)) == ([True, False, True], [True, False])


@pytest.mark.invariant("12.10")
def test_the_check_of_what_is_held_fails_at_once_if_only_a_person_can_end_it(ticks: Ticks) -> None:
    denied = HeldPart("caf\udce9.json", "Permission denied", passes=False)
    ticks.see(0, merged=6, end=6, held_parts=[denied])
    ticks.see(5, merged=6, end=6)
    assert ticks.results(HELD_CHECK) == [False, True]
    grows = HeldPart("x.json", "not unchanged for 30 seconds yet")
    for minute in range(11):
        ticks.see(minute * 60, merged=6, end=6, held_parts=[grows])
    assert ticks.results(HELD_CHECK) == [False, True]
    ticks.see(601, merged=6, end=6, held_parts=[grows])
    assert ticks.results(HELD_CHECK) == [False, True, False]


def test_the_cursor_keeps_the_oldest_of_much_that_is_held(ticks: Ticks) -> None:
    files = [HeldPart(f"{number}.json", "waits for x.json") for number in range(1_000)]
    ticks.see(0, merged=6, end=6, held_parts=files[:1])
    ticks.see(300, merged=6, end=6, held_parts=files)
    assert len(ticks.cursor.held_times) <= 30
    assert ticks.cursor.held_since(files[0], START + 400) == START
    assert sorted(since - START for since in ticks.cursor.held_times.values())[:2] == [0, 300]


def test_a_sensor_that_never_saw_the_topic_does_not_pass(ticks: Ticks) -> None:
    report_freshness(ticks.instance, ENTRY, SensorCursor(), START)
    assert ticks.results() == [False]


def test_a_new_topic_of_the_same_name_has_no_record_that_waits_since_the_old_one(ticks: Ticks) -> None:
    ticks.see(0, merged=0, end=6)
    ticks.see(301, merged=0, end=6, source=OTHER)
    assert ticks.results() == [True]


def test_a_clock_that_is_set_back_starts_the_wait_again_and_does_not_hide_it(ticks: Ticks) -> None:
    ticks.see(7200, merged=0, end=6)
    ticks.see(0, merged=0, end=6)
    ticks.see(301, merged=0, end=6)
    assert ticks.results() == [True, False]


def test_a_cursor_of_another_form_is_an_empty_one() -> None:
    for text in ("", "no json", '{"source": "kafka:c/t", "end": {"x": 1}}', "[]"):
        assert SensorCursor.parse(text) == SensorCursor()


def test_more_waiting_offsets_than_declared_fail_the_check(ticks: Ticks) -> None:
    for end in (10, 11, 12, 10):
        ticks.see(0, merged=0, end=end)
    assert ticks.results(LAG) == [True, False, True]
    report_lag(ticks.instance, ENTRY, None)
    assert ticks.results(LAG) == [True, False, True, False]


def test_the_cursor_of_a_topic_with_many_partitions_stays_small() -> None:
    cursor, partitions = SensorCursor(), range(1_000)
    earliest = dict.fromkeys(partitions, 0)
    for minute in range(60):
        state = TopicState("prices", SOURCE, earliest, dict.fromkeys(partitions, minute + 1))
        waiting = Waiting(((state, plan_batch(state, Progress(SOURCE, earliest))),))
        cursor = cursor.after(waiting, START + minute * 60, FRESH_LIMIT)
    assert len(cursor.text) < 100_000


def test_texts_that_differ_only_in_figures_are_one_result(ticks: Ticks) -> None:
    entry = CatalogEntry(replace(temperatures, promise=Promise(max_lag=10_000)))
    for lag in (900, 1_100, 900, 1_100):
        report_lag(ticks.instance, entry, lag)
    assert ticks.results(LAG) == [True]


@pytest.mark.parametrize(("last_tick", "passed"), [(None, False), (0.0, True), (400.0, False)])
def test_on_request_the_check_uses_what_the_sensor_remembers(
    tmp_path: Path, last_tick: float | None, passed: bool
) -> None:
    (tmp_path / "dagster").mkdir()
    instance = dg.DagsterInstance.local_temp(str(tmp_path / "dagster"))
    if last_tick is not None:
        at = time.time() - last_tick
        state = TopicState("prices", SOURCE, {0: 0}, {0: 5})
        plan = plan_batch(state, Progress(SOURCE, {0: 0}))
        remember(instance, SensorCursor().after(Waiting(((state, plan),)), at, FRESH_LIMIT), at)
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=f"127.0.0.1:{draw_port()}", _env_file=None)
    checks = promise_checks(ENTRY)
    job = dg.define_asset_job("promises", selection=dg.AssetSelection.checks(*checks))
    resources = {"lakehouse": LakehouseResource.with_settings(settings)}
    definitions = dg.Definitions(asset_checks=checks, jobs=[job], resources=resources)
    run = definitions.resolve_job_def("promises").execute_in_process(instance=instance)
    results = {evaluation.check_name: evaluation.passed for evaluation in run.get_asset_check_evaluations()}
    assert results == {FRESH: passed, LAG: False}, "the broker does not answer, so the lag is unknown"


def test_a_check_on_request_uses_the_sensor_of_its_own_code_location(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for at, location in ((START, "ours"), (START + 60, "another")):
            remember(instance, SensorCursor(seen_at=at), at, location)
        assert read_cursor(instance, ENTRY.sensor, repository_of("ours").get_label()).seen_at == START
        assert read_cursor(instance, ENTRY.sensor, repository_of("a third").get_label()) == SensorCursor()
        assert read_cursor(instance, ENTRY.sensor, None).seen_at == START + 60


def remember(instance: dg.DagsterInstance, cursor: SensorCursor, at: float, location: str = "lakehouse") -> None:
    """Store a tick of the sensor as Dagster's daemon does."""
    data = SensorInstigatorData(last_tick_timestamp=at, cursor=cursor.text)
    origin = RemoteInstigatorOrigin(repository_of(location), ENTRY.sensor)
    instance.add_instigator_state(InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data))
