"""A null that erases a kept value, against the model, in any order."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.histories.histories import Begun, Parts
from lakehouse_tests.helpers.histories.model import Rules
from lakehouse_tests.helpers.histories.surroundings import KEYS, Letter, Ways


@pytest.mark.invariant(3, 5)
def test_a_null_erases_what_is_older_whenever_that_comes_and_nothing_that_is_newer(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Erased(Begun):
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: None)

        def replay_one(self, offset: int) -> None:
            (outcome,) = replay(TableContext(self.spark, self.settings, self.table), [Range(0, offset, offset + 1)])
            self._expect(outcome, self.model.replay({0: (offset, offset + 1)}))

    def letter(temperature: float | None, hours: int, without: Ways = "null") -> Letter:
        return Letter(KEYS[0], temperature, timedelta(hours=hours), without)

    def stored() -> float | None:
        history.tables_equal_the_model()
        return history.model.now.rows[KEYS[0]].temperature

    history = Erased()
    history.begin([letter(20.0, 2)])
    history.send_and_merge([letter(None, 3)], 0, None)
    assert stored() == 20.0  # it is not declared that a null erases
    history.declare(Rules(null_erases=True))
    history.replay_one(1)
    assert stored() is None  # what an earlier null was taken for is mended by a replay
    erased = [letter(0.0, 1), letter(-5.5, 2), letter(None, 4, "missing"), letter(None, 5, "placeholder")]
    for then in erased:
        history.send_and_merge([then], 0, None)
        assert stored() is None
    history.reload_base({KEYS[0]: 20.25})
    history.merge(None)
    assert stored() is None
    history.send_and_merge([letter(20.0, 9), letter(None, 8), letter(None, 10, "missing"), letter(-5.5, 7)], 0, None)
    assert stored() == 20.0
    history.send_and_merge([letter(0.0, 11), letter(None, 12), letter(None, 13, "placeholder")], 1, None)
    assert stored() is None
    history.declare(Rules())
    history.send_and_merge([letter(-5.5, 11)], 0, None)
    assert stored() is None  # what was decided stays
    history.send_and_merge([letter(-5.5, 14)], 0, None)
    assert stored() == -5.5
