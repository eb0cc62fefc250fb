"""An unusual declaration that does no harm is accepted."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from lakehouse.declaration import Column, Late, Time, Upkeep
from lakehouse.defs.build import build_defs
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.ratings import ID, RATED_AT, STARS, column, declare, declare_sum, with_column


@dataclass(frozen=True)
class OwnedColumn(Column):
    """A subclass of a user, with fields of its own."""

    steward: str | int | None = None
    note: Any = None


def test_a_subclass_of_column_is_accepted_with_any_fields() -> None:
    owned_column = OwnedColumn("own", "INT", doc="Own.", steward=3, note=object())
    assert replace(temperatures, columns=[*temperatures.columns, owned_column]).by_name["own"] is owned_column


def test_unusual_but_harmless_declarations_are_accepted() -> None:
    """Two columns of one field, a kept column as the event time, a version in the key, a column without a doc."""
    same_column = column("seen_again_at", "TIMESTAMP", source="time", written=Time("%Y-%m-%d %H:%M:%S"))
    yearly = column("seen_at", "TIMESTAMP", written=Time("%Y"), keep=True)
    unusual_columns = [
        column("x", "DOUBLE", between=(0, float("inf"))),
        column("y", "DECIMAL(38,38)"),
        *[
            column(f"at_{place}", "TIMESTAMP", written=Time(pattern))
            for place, pattern in enumerate(("%d.%m.%Y, %HhZ", "%Y-%m-%dT%H:%M:%S.%f+00:00", "%Y-01", "%Y%m%d%H%M UTC"))
        ],
        column("one", "INT", between=(0.5, 1.5)),
        column("cent", "DECIMAL(5,2)", between=(0.01, 0.01)),
        column("any_double", "DOUBLE", between=(float("-inf"), float("inf"))),
        Column("z", "INT", doc=""),
    ]
    values = [column(name) for name in ("number", "change", "place", "file", "count", "key", "kafka_offset")]
    columns = [ID, RATED_AT, STARS, same_column, yearly, *unusual_columns, *values]
    table = declare(
        columns=columns,
        version="id",
        late=Late("seen_at", timedelta(1)),
        upkeep=Upkeep(retention=timedelta(hours=1)),
        doc="",
    )
    build_defs([table]).get_repository_def()


def test_exact_sums_are_accepted() -> None:
    for sql in ("sum(CAST(n AS DECIMAL(18,6)))", "max(n)", "count(n)", "sum(stars)"):
        assert declare_sum(sql).rollups[0].measures["m"].sql == sql
    for exact_type in ("INT", "DECIMAL(9,2)"):
        assert declare_sum("avg(n)", exact_type)


@pytest.mark.parametrize("pattern", ["am %d.%m.%Y um %H:%M Uhr", "%H:%M %d/%m/%Y", "%Y-%m-%dT%H:%M:%S GMT"])
def test_words_in_a_pattern_that_do_not_shift_the_time_are_accepted(pattern: str) -> None:
    assert with_column(type_="TIMESTAMP", written=Time(pattern))()
