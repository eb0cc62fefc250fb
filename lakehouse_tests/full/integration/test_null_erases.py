"""A null that erases a kept value, in any order, compared with the model."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.histories.histories import BegunHistories, Parts
from lakehouse_tests.helpers.histories.model_values import Rules
from lakehouse_tests.helpers.histories.surroundings import KEYS, Letter, Ways

pytestmark = pytest.mark.invariant("5.2")


def test_a_null_erases_older_values_in_any_order_and_no_newer_value(
    spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    class NullHistory(BegunHistories):
        parts = Parts(spark, broker, lambda: tmp_path_factory.mktemp("base"), lambda: None)

        def replay_offset(self, offset: int) -> None:
            (outcome,) = replay(TableContext(self.spark, self.settings, self.table), [Range(0, offset, offset + 1)])
            self._expect(outcome, self.model.replay({0: (offset, offset + 1)}))

    def record(temperature: float | None, hours: int, way: Ways = "null") -> Letter:
        return Letter(KEYS[0], temperature, timedelta(hours=hours), way)

    def stored_temperature() -> float | None:
        history.tables_equal_the_model()
        return history.model.now.rows[KEYS[0]].temperature

    history = NullHistory()
    history.begin([record(20.0, 2)])
    history.send_and_merge([record(None, 3)], 0, None)
    assert stored_temperature() == 20.0  # the declaration does not let a null erase
    history.declare(Rules(null_erases=True))
    history.replay_offset(1)
    assert stored_temperature() is None  # a replay applies the new rule to an earlier null
    old_records = [record(0.0, 1), record(-5.5, 2), record(None, 4, "missing"), record(None, 5, "placeholder")]
    for old_record in old_records:
        history.send_and_merge([old_record], 1, None)  # in its own partition, each would be the newest
        assert stored_temperature() is None
    history.reload_base({KEYS[0]: 20.25})
    history.merge(None)
    assert stored_temperature() is None
    history.send_and_merge([record(20.0, 9), record(None, 10, "missing")], 0, None)
    history.send_and_merge([record(-5.5, 7), record(None, 8)], 1, None)
    assert stored_temperature() == 20.0
    history.send_and_merge([record(0.0, 11), record(None, 12), record(None, 13, "placeholder")], 1, None)
    assert stored_temperature() is None
    history.declare(Rules())
    for hours, expected in ((11, None), (14, -5.5)):  # an erased value stays erased
        history.send_and_merge([record(-5.5, hours)], 0, None)
        assert stored_temperature() == expected
