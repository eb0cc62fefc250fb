"""A short random history against the model; the full one is longer, of which there are many."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.histories import Histories, Parts

STEPS = 12
pytestmark = pytest.mark.invariant(3, 4, 5, 6, 7, 8, 10)


def test_a_random_history_gives_the_tables_of_the_model(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The first history Hypothesis draws is the plainest there is, so one more is drawn than counts."""
    steps: list[None] = []

    class Short(Histories):
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: steps.append(None))

    drawn = settings(
        max_examples=2,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(Short, settings=drawn, _min_steps=STEPS)  # else some end early
    assert len(steps) > STEPS
