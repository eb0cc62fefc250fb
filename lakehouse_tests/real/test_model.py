"""Short random histories compared with the model; the full tests run many longer ones."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.histories.corrections import (
    CorrectedDeleteHistories,
    CorrectedHistories,
    CorrectedLogHistories,
    ReadsAgain,
    run_corrections,
)
from lakehouse_tests.helpers.histories.drawn_histories import run_histories
from lakehouse_tests.helpers.histories.erased_histories import ErasedHistories, run_erasures
from lakehouse_tests.helpers.histories.histories import BegunHistories, HiddenHistories, Parts
from lakehouse_tests.helpers.histories.log_histories import LogHistories
from lakehouse_tests.helpers.histories.surroundings import KEYS, Letter

STEPS, ROUNDS = 12, 6
pytestmark = pytest.mark.slow


@pytest.mark.invariant("3.3", "4.5", "7.1")
def test_a_random_history_of_a_log_table_gives_each_record_once(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    steps: list[None] = []

    class Short(LogHistories):
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: steps.append(None))

    run_histories(Short, 2, STEPS, are_always_the_same=True)
    assert len(steps) >= STEPS


@pytest.mark.invariant("3.3", "4.1", "5.1", "7.1", "10.3", "10.4")
@pytest.mark.parametrize("machine", [BegunHistories, HiddenHistories])
def test_a_random_history_gives_the_tables_of_the_model(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory, machine: type[BegunHistories]
) -> None:
    """The first history that Hypothesis draws is the simplest, so a second one is drawn."""
    steps: list[None] = []

    class Short(machine):  # type: ignore[valid-type, misc]
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: steps.append(None))

    run_histories(Short, 2, STEPS, are_always_the_same=True)
    assert len(steps) >= 2 * STEPS


@pytest.mark.invariant("3.7")
@pytest.mark.parametrize("machine", [CorrectedHistories, CorrectedDeleteHistories, CorrectedLogHistories])
def test_records_that_are_read_again_give_the_rows_of_a_merge_from_the_beginning(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory, machine: type[ReadsAgain]
) -> None:
    class Tested(machine):  # type: ignore[valid-type, misc]
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: None)

    assert run_corrections(Tested, rounds=6).corrected


@pytest.mark.invariant("3.7", "14.9")
def test_keys_stay_erased_in_each_way_to_read_their_records_again(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Tested(ErasedHistories):
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: None)

    history = run_erasures(Tested, rounds=ROUNDS)
    assert history.model.erased
    assert history.rebuilt


@pytest.mark.invariant("5.3")
def test_a_temperature_that_another_writer_filled_in_has_the_origin_of_its_row(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    class TestedHistory(BegunHistories):
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: None)

    def letter(temperature: float | None, hours: int) -> Letter:
        return Letter(KEYS[0], temperature, timedelta(hours=hours))

    history = TestedHistory()
    history.begin([letter(None, 2)])
    history.overwrite(KEYS[0], 20.0)
    history.tables_equal_the_model()
    for next_letter in (letter(-5.5, 1), letter(None, 26), letter(0.0, 25)):
        history.send_and_merge([next_letter], 0, None)
        history.tables_equal_the_model()
    assert history.model.now.rows[KEYS[0]].temperature == 0.0
