"""Random histories, compared with a model of the tables."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.reliability import Attack
from lakehouse_tests.helpers.histories.avro_histories import AvroHistories
from lakehouse_tests.helpers.histories.delete_histories import DeleteHistories, PurgeHistories
from lakehouse_tests.helpers.histories.drawn_histories import run_histories
from lakehouse_tests.helpers.histories.element_histories import ElementHistories
from lakehouse_tests.helpers.histories.histories import BegunHistories, HiddenHistories, Histories, Parts
from lakehouse_tests.helpers.histories.log_histories import LogHistories
from lakehouse_tests.helpers.histories.side_table_histories import SideTableHistories
from lakehouse_tests.helpers.histories.topic_histories import (
    TopicDeleteHistories,
    TopicLogHistories,
    TopicPurgeHistories,
)

pytestmark = pytest.mark.invariant(
    "2.8", "3.3", "4.1", "4.8", "5.1", "7.1", "8.12", "8.18", "10.3", "10.4", "14.1", "14.2", "14.3", "14.7", "14.8"
)

STEPS = 40


HISTORY_KINDS: list[tuple[str, type[Histories]]] = [("from nothing", Histories)] * 2 + [
    ("with a table", BegunHistories)
] * 5
HISTORY_KINDS += [("with hidden rows", HiddenHistories)] * 2
HISTORY_KINDS += [("of a log table", LogHistories)] * 3
HISTORY_KINDS += [("with deletes and truncates", DeleteHistories)] * 4
HISTORY_KINDS += [("with purged deletes", PurgeHistories)] * 2
HISTORY_KINDS += [("whose rejected records and deletes are lost", SideTableHistories)] * 2
HISTORY_KINDS += [("of several topics, with deletes", TopicDeleteHistories)] * 3
HISTORY_KINDS += [("of several topics, with purged deletes", TopicPurgeHistories)] * 2
HISTORY_KINDS += [("of a log table of several topics", TopicLogHistories)] * 2
HISTORY_KINDS += [("of elements, among records of another type", ElementHistories)] * 2
HISTORY_KINDS += [("of Avro, whose registry comes, goes and lies", AvroHistories)] * 3


@pytest.mark.parametrize("history_kind", HISTORY_KINDS, ids=[name for name, _ in HISTORY_KINDS])
def test_random_histories_give_the_tables_of_the_model(
    spark: SparkSession,
    registry: Settings,
    tmp_path_factory: pytest.TempPathFactory,
    attack: Attack,
    history_kind: tuple[str, type[Histories]],
) -> None:
    """Hypothesis draws the simplest history first, so one more than needed is drawn."""
    kind, machine = history_kind
    steps: list[None] = []

    class CountedHistories(machine):  # type: ignore[valid-type, misc]
        parts = Parts(spark, registry, lambda: tmp_path_factory.mktemp("base"), lambda: steps.append(None))

    label = f"a step of a random history {kind}, compared with a model"
    with attack("Nothing is lost, doubled or silent", label, lambda: len(steps)):
        run_histories(CountedHistories, 2, STEPS)
