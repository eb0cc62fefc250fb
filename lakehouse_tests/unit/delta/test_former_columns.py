"""Which columns of a table in the first form were ours, by their names and the declaration."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Column
from lakehouse.delta.order import merged_layout
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures

pytestmark = pytest.mark.invariant(1, 5)
FLAT = ["kafka_timestamp", "kafka_partition", "kafka_offset", "base_version"]
OF_KEPT = [f"temperature_2m_{name}" for name in [*FLAT, "revision"]]
REVISION = Column("revision", "BIGINT", doc="Revision of the reading.")
VERSIONED = replace(temperatures, columns=[*temperatures.columns, REVISION], version="revision")
STORED = [*VERSIONED.by_name, "observed_month", *FLAT, *OF_KEPT]


def former(table, names):
    found = merged_layout(table, Settings()).former
    return {made.column.name: made.sql for made in found.made(names)}, set(found.owned(names))


def test_the_version_beside_a_kept_column_becomes_a_field_of_its_order_and_goes():
    made, owned = former(VERSIONED, STORED)
    assert "`temperature_2m_revision`" in made["_kept"]
    assert owned == {*FLAT, *OF_KEPT}


def test_it_goes_also_where_the_column_is_kept_no_more():
    plain = [replace(column, keep=False) for column in VERSIONED.columns]
    made, owned = former(replace(VERSIONED, columns=plain), STORED)
    assert set(made) == {"_record"}
    assert owned == {*FLAT, *OF_KEPT}


def test_a_declared_column_of_that_name_is_no_version_of_ours_and_stays():
    declared = Column("temperature_2m_revision", "BIGINT", doc="Somebody's own.")
    made, owned = former(replace(VERSIONED, columns=[*VERSIONED.columns, declared]), STORED)
    assert "revision" not in made["_kept"]
    assert owned == {*FLAT, *OF_KEPT} - {"temperature_2m_revision"}
