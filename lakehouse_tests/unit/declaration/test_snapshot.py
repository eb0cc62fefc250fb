"""The snapshot of a declaration, and columns that are renamed columns of the previous declaration."""

from datetime import date
from typing import Any

import pytest

from lakehouse.declaration import Column, Deletes, FieldIs, RecordKey, StreamTable, Time, Zone
from lakehouse.declaration.snapshot import differences, facts_of, find_renamed_columns
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.unit.declaration.ratings import declare

CITY = Column("city", "STRING", "Where.")


def snapshot_with(column: Column) -> str:
    number = Column("id", "INT", "Which.", required=True)
    return facts_of(StreamTable("orders", "orders", "Orders.", [number, column], ["id"]))


@pytest.mark.parametrize(
    ("options", "is_renamed"),
    [
        ({"source": "city"}, True),
        ({"source": ("city",)}, True),
        ({"formerly": "city"}, True),
        ({"source": ("to", "town"), "formerly": ("city",)}, True),
        ({}, False),
        ({"source": ("city", "name")}, False),
        ({"formerly": ("to", "city")}, False),
    ],
)
def test_a_column_with_the_source_of_a_removed_column_is_renamed(options: dict[str, Any], is_renamed: bool) -> None:
    now = snapshot_with(Column("town", "STRING", "Where.", **options))
    assert [*find_renamed_columns(snapshot_with(CITY), now)] == [("city", "town")] * is_renamed


def test_days_to_replay_are_no_change_of_a_table() -> None:
    before = StreamTable("orders", "orders", "Orders.", [Column("id", "INT", "Which.", required=True)], ["id"])
    now = redeclare(before, replay_from=date(2026, 8, 1))
    assert (facts_of(now), now.fingerprint) == (facts_of(before), before.fingerprint)


def test_another_start_is_no_change_of_a_table() -> None:
    before = StreamTable("orders", "orders", "Orders.", [Column("id", "INT", "Which.", required=True)], ["id"])
    for start in ("latest", "2026-11-01T00:00:00Z", {0: 5}):
        now = redeclare(before, start=start)
        assert (facts_of(now), now.fingerprint) == (facts_of(before), before.fingerprint)


def test_adding_null_erases_is_a_difference() -> None:
    before, now = (
        snapshot_with(Column("city", "STRING", "Where.", keep=True, null_erases=erases)) for erases in (False, True)
    )
    assert [*differences(before, now)] == [("column city", "column city: null_erases was not set, is True")]


def test_the_encoding_of_a_key_is_a_difference_unless_it_is_text() -> None:
    assert repr(RecordKey()) == "RecordKey()"
    before, now = (
        snapshot_with(Column("city", "INT", "Where.", source=RecordKey(encoding)))
        for encoding in ("text", "big_endian")
    )
    assert [change for _, change in differences(before, now)] == [
        "column city: takes was RecordKey(), is RecordKey('big_endian')"
    ]


def test_a_changed_zone_or_unit_of_a_time_is_a_difference_and_the_same_zone_is_none() -> None:
    def differences_between(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
        times = [Column("at", "TIMESTAMP", "When.", written=Time(**options)) for options in (before, now)]
        return [change for _, change in differences(*map(snapshot_with, times))]

    text = {"pattern": "iso8601"}
    assert differences_between(text | {"zone": "Europe/Berlin"}, text | {"zone": Zone("Europe/Berlin")}) == []
    assert differences_between(text, text | {"zone": Zone("Europe/Berlin", missing="later")}) == [
        "column at: zone was not set, is Zone(name='Europe/Berlin', ambiguous='reject', missing='later')"
    ]
    assert differences_between({"pattern": "%Y"}, text) == ["column at: pattern was '%Y', is 'iso8601'"]
    assert differences_between({"epoch": "seconds"}, {"epoch": "nanoseconds"}) == [
        "column at: epoch was 'seconds', is 'nanoseconds'"
    ]


def test_a_plan_names_the_conditions_of_deletes_as_a_declaration_does() -> None:
    before, by_field = (declare(deletes=deletes) for deletes in (Deletes(), Deletes(FieldIs("op", ["D"]))))
    truncated = declare(deletes=Deletes(truncates=FieldIs("op", ["T"])))
    changes = [[*differences(facts_of(before), facts_of(now))] for now in (by_field, truncated)]
    assert changes == [
        [("table", "table: deletes.when was not set, is FieldIs(source='op', values=['D'])")],
        [("table", "table: deletes.truncates was not set, is FieldIs(source='op', values=['T'])")],
    ]
