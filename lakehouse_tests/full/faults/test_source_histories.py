"""Random histories of files, compared with a model of their folder, and of another table, compared with it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_tests.helpers.attacks.reliability import Attack, Target
from lakehouse_tests.helpers.histories.drawn_histories import run_histories
from lakehouse_tests.helpers.histories.file_histories import FileHistories
from lakehouse_tests.helpers.histories.table_histories import TableHistories

STEPS = {FileHistories: 25, TableHistories: 15}


@pytest.mark.invariant("9.10", "9.11", "9.13")
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("machine", STEPS, ids=["files", "table"])
def test_random_histories_of_a_source_give_its_rows(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    attack: Attack,
    machine: type[FileHistories | TableHistories],
    number: int,
) -> None:
    steps: list[int] = []
    session = spark

    class CountedHistories(machine):  # type: ignore[valid-type, misc]
        spark = session

        @staticmethod
        def make_folder() -> Path:
            return tmp_path_factory.mktemp("source")

        @staticmethod
        def on_step() -> None:
            steps.append(number)

    target = Target.FILES if machine is FileHistories else Target.OTHER_TABLES
    label = f"a step of a random history of {machine.__name__.removesuffix('Histories').lower()} sources"
    with attack("Nothing is lost, doubled or silent", label, lambda: len(steps), target):
        run_histories(CountedHistories, 3, STEPS[machine])
