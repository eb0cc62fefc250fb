"""Times without an offset in a declared time zone, whose clocks change: one by one, and on the fast path."""

import json
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones
from zoneinfo._zoneinfo import ZoneInfo as PythonZoneInfo  # type: ignore[import-not-found]

import pytest

from lakehouse.declaration import Avro, Column, StreamTable, Time, Zone
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.values import convert_value
from lakehouse.decoding.written_forms import offsets_of
from lakehouse_tests.helpers.brokers.registries import encode_records
from lakehouse_tests.helpers.tables.decoded_times import decode_fast, decode_text, time_column
from lakehouse_tests.helpers.tables.written_times import ZONES

BERLIN = "Europe/Berlin"
DATE_TIME = "%Y-%m-%d %H:%M"
TWICE, MISSING = "2026-10-25 02:30", "2026-03-29 02:30"


@pytest.mark.invariant("13.2", "13.3")
@pytest.mark.parametrize(
    ("zone", "text", "result"),
    [
        (BERLIN, "2026-01-31 10:15", "2026-01-31T09:15:00"),
        (BERLIN, "2026-07-31 10:15", "2026-07-31T08:15:00"),
        (BERLIN, TWICE, "ambiguous_time"),
        (BERLIN, MISSING, "no_such_date"),
        (Zone(BERLIN, ambiguous="earlier"), TWICE, "2026-10-25T00:30:00"),
        (Zone(BERLIN, ambiguous="later"), TWICE, "2026-10-25T01:30:00"),
        (Zone(BERLIN, ambiguous="later"), MISSING, "no_such_date"),
        (Zone(BERLIN, missing="earlier"), MISSING, "2026-03-29T00:30:00"),
        (Zone(BERLIN, missing="later"), MISSING, "2026-03-29T01:30:00"),
        (Zone(BERLIN, missing="later"), TWICE, "ambiguous_time"),
        (BERLIN, "2026-03-29 01:59", "2026-03-29T00:59:00"),
        (BERLIN, "2026-03-29 03:00", "2026-03-29T01:00:00"),
        (BERLIN, "2026-10-25 01:59", "2026-10-24T23:59:00"),
        (BERLIN, "2026-10-25 03:00", "2026-10-25T02:00:00"),
        ("Australia/Lord_Howe", "2026-04-05 01:29", "2026-04-04T14:29:00"),
        ("Australia/Lord_Howe", "2026-04-05 01:30", "ambiguous_time"),
        ("Pacific/Apia", "2011-12-30 12:00", "no_such_date"),
        ("America/Sao_Paulo", "2018-11-04 00:00", "no_such_date"),
        (BERLIN, "0001-01-01 00:00", "out_of_range"),
        ("America/New_York", "9999-12-31 23:00", "out_of_range"),
    ],
)
def test_a_time_without_an_offset_is_in_the_declared_zone(zone: Any, text: str, result: str) -> None:
    for pattern in (DATE_TIME, "iso8601"):
        assert decode_text(text, time_column(pattern, zone)) == result
        assert decode_fast([text], time_column(pattern, zone))[0] == [result]


def test_the_detail_of_a_rejection_names_the_zone() -> None:
    for text, detail in ((TWICE, "occurs twice in Europe/Berlin"), (MISSING, "does not occur in Europe/Berlin")):
        with pytest.raises(Rejection) as rejected:
            convert_value(text, time_column(DATE_TIME, BERLIN).field)
        assert rejected.value.detail == f"'n' is '{text}', which {detail}"


def test_an_offset_in_the_text_overrides_the_zone() -> None:
    column = time_column(zone=BERLIN)
    texts = {f"{TWICE}Z": "2026-10-25T02:30:00", f"{MISSING}+05:00": "2026-03-28T21:30:00"}
    assert decode_fast([*texts], column) == ([*texts.values()], 0)


def test_a_fraction_is_rounded_after_the_zone_decides() -> None:
    text = "2026-03-29T01:59:59.9999999"  # rounded before, it would not occur
    assert decode_text(text, time_column(zone=BERLIN)) == "2026-03-29T01:00:00"
    assert decode_fast([text], time_column(zone=BERLIN))[0] == ["2026-03-29T01:00:00"]


def test_dates_and_times_in_a_value_share_a_zone_that_moves_only_the_times() -> None:
    column = Column("n", "STRUCT<d: DATE, t: TIMESTAMP>", "Both.", written=Time("iso8601", zone=BERLIN))
    value = convert_value({"d": "2026-01-31", "t": "2026-01-31"}, column.field)
    assert value == {"d": date(2026, 1, 31), "t": datetime(2026, 1, 30, 23, tzinfo=UTC)}


def test_a_local_time_and_a_text_in_avro_are_in_the_declared_zone_but_an_instant_is_not() -> None:
    number = {"type": "long", "logicalType": "timestamp-micros"}
    types = {"local": number | {"logicalType": "local-timestamp-micros"}, "instant": number, "text": "string"}
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": types[name]} for name in types]}
    columns = [Column(name, "TIMESTAMP", "A time.", written=Time("iso8601", zone=BERLIN)) for name in types]
    local_time = datetime(2026, 1, 31, 10)
    record = {"local": local_time, "instant": local_time.replace(tzinfo=UTC), "text": "2026-01-31T10:00"}
    (value,) = encode_records(1, schema, [record])
    row = StreamTable("t", "t", "A table.", columns, [], format=Avro()).decode(
        value, schemas={1: writer_schema(json.dumps(schema))}
    )
    assert {name: time.hour for name, time in row.items()} == {"local": 9, "instant": 10, "text": 9}


def test_a_time_without_a_zone_that_another_parser_made_is_in_the_declared_zone() -> None:
    local_time = datetime(2026, 1, 31, 10)
    assert convert_value(local_time, time_column(zone=BERLIN).field) == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert convert_value(local_time, time_column().field) == datetime(2026, 1, 31, 10, tzinfo=UTC)
    aware_time = local_time.replace(tzinfo=UTC)
    assert convert_value(aware_time, time_column(zone=BERLIN).field) == aware_time


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("zone", ZONES)
def test_every_minute_around_a_change_of_clocks_has_equal_results(zone: Any) -> None:
    column = time_column(DATE_TIME, zone)
    days = [datetime(2026, 3, 29), datetime(2026, 10, 25), datetime(2026, 4, 5), datetime(2018, 11, 4)]
    days += [datetime(2018, 2, 17), datetime(2011, 12, 30), datetime(1893, 4, 1)]
    texts = [(day + timedelta(minutes=n)).strftime(DATE_TIME) for day in days for n in range(0, 1440, 5)]
    results, strict_count = decode_fast(texts, column)
    assert results == [decode_text(text, column) for text in texts]
    assert strict_count == sum(not result.startswith(("1", "2")) for result in results)


def test_no_zone_changes_its_clocks_twice_within_two_days() -> None:
    """The fast path relies on it: the offset of a day is that of its first and of its last second."""
    for name in sorted(available_timezones()):
        info = PythonZoneInfo(name)
        offsets = [kind.utcoff for kind in info._ttinfos]
        changes = [
            time
            for time, before, after in zip(info._trans_utc[1:], offsets, offsets[1:], strict=False)
            if before != after
        ]
        assert all(later - earlier > 2 * 86_400 for earlier, later in pairwise(changes)), name


@pytest.mark.parametrize("zone", ZONES)
def test_the_offsets_of_a_local_time_lead_back_to_it_unless_it_does_not_occur(zone: Any) -> None:
    field = time_column(zone=zone).field
    assert field.form.zone
    info = ZoneInfo(field.form.zone.name)
    for hour in range(24 * 400):
        local_time = datetime(2018, 1, 1) + timedelta(hours=hour)
        before, after = offsets_of(local_time, field.form.zone)
        instants = {(local_time - offset).replace(tzinfo=UTC) for offset in (before, after)}
        occurring = {instant for instant in instants if instant.astimezone(info).replace(tzinfo=None) == local_time}
        assert len(occurring) == (0 if before < after else 1 + (before > after))
