"""The snapshot of a declaration, and columns that are renamed columns of the previous declaration."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from lakehouse.declaration import (
    Avro,
    Column,
    Compressed,
    ConnectJson,
    Debezium,
    Deletes,
    FieldIs,
    Json,
    Logfmt,
    RecordKey,
    StreamTable,
    Time,
    Zone,
)
from lakehouse.declaration.snapshot import differences, facts_of, find_renamed_columns
from lakehouse.decoding.formats import Format
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.unit.declaration.ratings import declare

CITY = Column("city", "STRING", "Where.")


def snapshot_with(column: Column) -> str:
    return facts_of(replace(ORDERS, columns=[*ORDERS.columns, column]))


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


FORMS: dict[str, Format] = {
    "Json(framed=True)": Json(framed=True),
    "Json(framed=True, checked=True)": Json(framed=True, checked=True),
    'Json(not_finite="null")': Json(not_finite="null"),
    'Json(framed=True, not_finite="null")': Json(framed=True, not_finite="null"),
    'Json(encoding="latin-1")': Json(encoding="latin-1"),
    'Json(framed=True, encoding="latin-1")': Json(framed=True, encoding="latin-1"),
    'Json(duplicate_names="last")': Json(duplicate_names="last"),
    'Json(duplicate_names="first")': Json(duplicate_names="first"),
    "Json(in_text=True)": Json(in_text=True),
    "ConnectJson()": ConnectJson(),
    'ConnectJson(not_finite="null")': ConnectJson(not_finite="null"),
    "Avro()": Avro(),
    "Avro(named_branches=True)": Avro(named_branches=True),
    "Debezium()": Debezium(),
    "Debezium(Json(framed=True))": Debezium(Json(framed=True)),
    'Debezium(Json(encoding="latin-1"))': Debezium(Json(encoding="latin-1")),
    "Debezium(Avro())": Debezium(Avro()),
    "Debezium(flattened=True)": Debezium(flattened=True),
    'Compressed(Json(), "gzip")': Compressed(Json(), "gzip"),
    'Compressed(Json(), "zstd")': Compressed(Json(), "zstd"),
    'Compressed(Logfmt(encoding="cp1252"), "gzip")': Compressed(Logfmt(encoding="cp1252"), "gzip"),
    'Compressed(Debezium(Avro()), "zstd")': Compressed(Debezium(Avro()), "zstd"),
}
ORDERS = StreamTable("orders", "orders", "Orders.", [Column("id", "INT", "Which.", required=True)], ["id"])


@pytest.mark.parametrize(("text", "form"), FORMS.items(), ids=FORMS)
def test_a_format_is_part_of_the_declaration(text: str, form: Format) -> None:
    table = replace(ORDERS, format=form)
    assert form.declared_as == text
    changes = [f"table: format was Json(), is {form!r}"] * (repr(form) != "Json()")
    changes += ["table: framed was not set, is True"] * form.framed
    assert [*differences(facts_of(ORDERS), facts_of(table))] == [("table", change) for change in changes]


def test_formats_and_their_options_have_different_fingerprints() -> None:
    fingerprints = {replace(ORDERS, format=form).fingerprint for form in FORMS.values()}
    assert len({ORDERS.fingerprint, *fingerprints}) == 1 + len(FORMS)
    options_without_effect = Json(duplicate_names="reject", not_finite="reject")
    assert replace(ORDERS, format=options_without_effect).fingerprint == ORDERS.fingerprint
    assert (Json().declared_as, Json().fingerprint_parts) == ("", ())
    assert {repr(form) for form in (Json(), Json(framed=True), options_without_effect)} == {"Json()"}


def test_days_to_replay_are_no_change_of_a_table() -> None:
    now = redeclare(ORDERS, replay_from=date(2026, 8, 1))
    assert (facts_of(now), now.fingerprint) == (facts_of(ORDERS), ORDERS.fingerprint)


def test_another_start_is_no_change_of_a_table() -> None:
    for start in ("latest", "2026-11-01T00:00:00Z", {0: 5}):
        now = redeclare(ORDERS, start=start)
        assert (facts_of(now), now.fingerprint) == (facts_of(ORDERS), ORDERS.fingerprint)


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


def test_base_rows_that_are_declared_later_are_a_difference() -> None:
    without_base = redeclare(temperatures, base=None)
    changes = [*differences(facts_of(without_base), facts_of(temperatures))]
    assert changes == [("table", "table: base was not set, is True")]


def test_the_facts_of_a_change_stream_are_those_of_before_documents() -> None:
    """Else each table that follows a database waits until a person accepts its declaration."""
    form = "Debezium(written=Json(), flattened=False, decimal_handling_mode='precise')"
    id_column = Column("id", "STRING", "", required=True)
    stream = StreamTable("t", "t", "", [id_column], ["id"], format=Debezium())
    assert json.loads(facts_of(stream))["table"]["format"] == form == repr(stream.format)
    key_column = replace(id_column, source=RecordKey("json", "id"))
    documents = StreamTable("t", "t", "", [key_column], ["id"], format=Debezium(documents=True))
    assert json.loads(facts_of(documents))["table"]["documents"] == "True"
    assert documents.fingerprint != replace(documents, columns=[id_column], format=Debezium()).fingerprint
