"""The column of a measure that is no longer declared stays in the table, and ``plan`` says so."""

from dataclasses import replace

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.derived.refresh import rollup_layout
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.operations.planned_changes import _former_measures
from lakehouse.settings import Settings


def test_plan_names_the_columns_of_measures_that_are_no_longer_declared(settings: Settings) -> None:
    (rollup,) = temperatures.rollups
    removed_name, *_ = rollup.measures
    remaining_measures = {name: measure for name, measure in rollup.measures.items() if name != removed_name}
    layout = rollup_layout(temperatures, rollup, settings)
    assert _former_measures(layout) == ""
    write_deltalake(layout.uri, pa.table({column: [1] for column in layout.names}))
    assert _former_measures(layout) == ""
    detail = _former_measures(rollup_layout(temperatures, replace(rollup, measures=remaining_measures), settings))
    assert detail == f"; {removed_name}: no longer declared, stays in the table as NULL"
