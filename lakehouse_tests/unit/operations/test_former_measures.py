"""A measure that is no longer declared: its column stays, and ``plan`` says so."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.derived.rollup import rollup_layout
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.operations.planned_changes import _former_measures
from lakehouse.settings import Settings


def test_plan_names_the_columns_that_no_measure_fills_any_more(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, _env_file=None)
    (rollup,) = temperatures.rollups
    name, *_ = rollup.measures
    fewer = replace(rollup, measures={each: m for each, m in rollup.measures.items() if each != name})
    layout = rollup_layout(temperatures, rollup, settings)
    assert _former_measures(layout) == ""
    write_deltalake(layout.uri, pa.table({column: [1] for column in layout.names}))
    assert _former_measures(layout) == ""
    said = _former_measures(rollup_layout(temperatures, fewer, settings))
    assert said == f"; {name}: no longer declared, stays in the table as NULL"
