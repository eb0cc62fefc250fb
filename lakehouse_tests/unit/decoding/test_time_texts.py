"""Times that are texts: every form of ISO 8601, and offsets in patterns.

The fast path gives the same times, also for texts of many forms in one batch.
"""

import json
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.declaration import Rejection
from lakehouse.decoding.time_texts import MONTHS
from lakehouse.decoding.values import convert_value
from lakehouse_tests.helpers.tables.decoded_times import decode_fast, decode_text, time_column
from lakehouse_tests.helpers.tables.written_times import ZONES, times

DATE_TIME = "%Y-%m-%d %H:%M"

FORMS = {
    "2026-01-31T10:15:30Z": "2026-01-31T10:15:30",
    "2026-01-31t10:15:30z": "2026-01-31T10:15:30",
    "2026-01-31 10:15:30": "2026-01-31T10:15:30",
    "2026-01-31T10:15": "2026-01-31T10:15:00",
    "2026-01-31": "2026-01-31T00:00:00",
    "2026-01-31T10:15:30+02:00": "2026-01-31T08:15:30",
    "2026-01-31T10:15:30+0200": "2026-01-31T08:15:30",
    "2026-01-31T10:15:30+02": "2026-01-31T08:15:30",
    "2026-01-31 10:15-05:30": "2026-01-31T15:45:00",
    "2026-01-31T10:15:30-00:00": "2026-01-31T10:15:30",
    "2026-01-01T00:15+23:59": "2025-12-31T00:16:00",
    "2026-01-31T10:15:30.1Z": "2026-01-31T10:15:30.100000",
    "2026-01-31T10:15:30,12": "2026-01-31T10:15:30.120000",
    "2026-01-31T10:15:30.123+0200": "2026-01-31T08:15:30.123000",
    "2026-01-31T10:15:30.1234567": "2026-01-31T10:15:30.123457",
    "2026-01-31T10:15:30.1234564": "2026-01-31T10:15:30.123456",
    "2026-01-31T10:15:30.123456500Z": "2026-01-31T10:15:30.123457",
    "2026-01-31T10:15:30.123456499Z": "2026-01-31T10:15:30.123456",
    "2026-12-31T23:59:59.9999995Z": "2027-01-01T00:00:00",
    "1969-12-31T23:59:59.9999995Z": "1970-01-01T00:00:00",
    "0001-01-01T00:00Z": "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999499Z": "9999-12-31T23:59:59.999999",
}
REFUSED_FORMS = {
    **dict.fromkeys(
        [
            "2026-W05-6",
            "2026-031",
            "20260131T101530Z",
            "2026-01-31T10",
            "2026-01-31T1015",
            "2026-01-31T10:15.5",
            "2026-01-31T10:15:30.",
            "2026-01-31T10:15:30.1234567890",
            "2026-01-31T10:15:30 +02:00",
            "2026-01-31T10:15:30+2:00",
            "2026-01-31T10:15:30+020",
            "2026-01-31T10:15:30Z ",
            "2026-01-31T10:15:30ZZ",
            "2026-01-31Z",
            "2026-01-31T10:15:30Z[Europe/Berlin]",
            "12026-01-31T10:15",
            "-2026-01-31",
            "\uff12\uff10\uff12\uff16-01-31",
            "2026-01-31T10:15:30\u221202:00",
            "",
            "iso8601",
            "2" * 1_000_000,
            "2026-01-31T10:15:30." + "1" * 1_000_000,
            "\ud800",
        ],
        "wrong_time_format",
    ),
    **dict.fromkeys(
        [
            "2026-02-29",
            "2026-13-01T00:00",
            "2026-01-31T24:00",
            "2026-01-31T10:60",
            "2016-12-31T23:59:60Z",
            "0000-01-01T00:00Z",
            "2026-01-31T10:15+24:00",
            "2026-01-31T10:15+01:60",
        ],
        "no_such_date",
    ),
    **dict.fromkeys(
        ["0001-01-01T00:00+00:01", "9999-12-31T23:59-00:01", "9999-12-31T23:59:59.9999995Z"], "out_of_range"
    ),
}


@pytest.mark.invariant("13.2", "13.3")
@pytest.mark.parametrize(("text", "result"), [*FORMS.items(), *REFUSED_FORMS.items()], ids=lambda text: text[:40])
def test_every_form_of_iso_8601_is_a_time_in_utc_or_has_its_reason(text: str, result: str) -> None:
    assert decode_text(text, time_column()) == result


@pytest.mark.invariant("8.10")
def test_a_batch_of_every_form_is_decoded_at_once_like_each_alone() -> None:
    results, strict_count = decode_fast([*FORMS], time_column())
    assert (results, strict_count) == ([*FORMS.values()], 0)
    assert decode_fast([*FORMS, *REFUSED_FORMS], time_column())[0] == [*FORMS.values(), *REFUSED_FORMS.values()]


@pytest.mark.invariant("13.2")
def test_a_date_in_iso_8601_has_no_time_that_would_be_dropped() -> None:
    column = time_column(type_="DATE")
    assert decode_text("2026-01-31", column) == "2026-01-31"
    texts = [text for text in FORMS if text != "2026-01-31"]
    assert {decode_text(text, column) for text in texts} == {"wrong_time_format"}
    assert decode_fast(["2026-01-31", *texts], column) == (
        ["2026-01-31", *["wrong_time_format"] * len(texts)],
        len(texts),
    )


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("2026-01-31 10:15 Z", "2026-01-31T10:15:00"),
        ("2026-01-31 10:15 +02:00", "2026-01-31T08:15:00"),
        ("2026-01-31 10:15 +0200", "2026-01-31T08:15:00"),
        ("2026-01-31 10:15 -02", "2026-01-31T12:15:00"),
        ("2026-01-31 10:15", "wrong_time_format"),
        ("2026-01-31 10:15 CET", "wrong_time_format"),
        ("2026-01-31 10:15 +24:00", "no_such_date"),
        ("0001-01-01 00:00 +01:00", "out_of_range"),
    ],
)
def test_an_offset_in_a_pattern_is_subtracted(text: str, result: str) -> None:
    column = time_column(f"{DATE_TIME} %z")
    assert decode_text(text, column) == result
    assert decode_fast([text], column)[0] == [result]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("31/Jan/2026:10:15:30 +0200", "2026-01-31T08:15:30"),
        ("31/DEC/2026:10:15:30 Z", "2026-12-31T10:15:30"),
        ("01/may/2026:10:15:30 Z", "2026-05-01T10:15:30"),
        ("31/Sep/2026:10:15:30 Z", "no_such_date"),
        ("31/jAN/2026:10:15:30 Z", "wrong_time_format"),
        ("31/Mai/2026:10:15:30 Z", "wrong_time_format"),
        ("31/01./2026:10:15:30 Z", "wrong_time_format"),
        ("31/January/2026:10:15:30 Z", "wrong_time_format"),
    ],
)
def test_a_month_may_be_its_short_english_name(text: str, result: str) -> None:
    column = time_column("%d/%b/%Y:%H:%M:%S %z")
    assert decode_text(text, column) == result
    assert decode_fast([text], column)[0] == [result]


def test_every_name_of_a_month_is_decoded_at_once() -> None:
    texts = [f"02-{name}-2026" for name in MONTHS]
    days = [f"2026-{number:02}-02" for number in MONTHS.values()]
    assert decode_fast(texts, time_column("%d-%b-%Y", type_="DATE")) == (days, 0)


def test_the_language_of_the_process_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["", "jan", "fev", "mar", "avr", "mai", "jui", "jul", "aou", "sep", "oct", "nov", "dec"]
    monkeypatch.setattr("calendar.month_abbr", names)
    monkeypatch.setattr("_strptime._TimeRE_cache", import_module("_strptime").TimeRE())
    assert decode_text("02 Feb 2026", time_column("%d %b %Y", type_="DATE")) == "2026-02-02"


def test_with_a_required_zone_a_text_without_an_offset_is_rejected() -> None:
    column = time_column(zone="required")
    texts = {"2026-01-31T10:15+02": "2026-01-31T08:15:00", "2026-01-31T10:15Z": "2026-01-31T10:15:00"}
    texts |= dict.fromkeys(["2026-01-31T10:15", "2026-01-31"], "wrong_time_format")
    assert [decode_text(text, column) for text in texts] == [*texts.values()]
    assert decode_fast([*texts], column) == ([*texts.values()], 2)
    with pytest.raises(Rejection, match="'n' is '2026-01-31', expected an offset from UTC"):
        convert_value("2026-01-31", column.field)


@pytest.mark.invariant("8.10")
@settings(deadline=None, max_examples=100, database=None)
@given(st.lists(times("%d %b %Y"), max_size=20))
def test_generated_names_of_months_have_equal_results(texts: list[str]) -> None:
    column = time_column("%d %b %Y", type_="DATE")
    parsed_texts = [json.loads(text) for text in texts]
    assert decode_fast(parsed_texts, column)[0] == [decode_text(text, column) for text in parsed_texts]


def test_an_offset_may_be_anywhere_in_a_pattern() -> None:
    assert decode_text("+0200|31.01.2026 10h", time_column("%z|%d.%m.%Y %Hh")) == "2026-01-31T08:00:00"
    assert decode_text("2026-01-31T10:15:30.5+02:00x", time_column("%Y-%m-%dT%H:%M:%S.%f%zx")) == (
        "2026-01-31T08:15:30.500000"
    )


@pytest.mark.invariant("8.10")
@settings(deadline=None, max_examples=200, database=None)
@given(
    st.lists(st.sampled_from(["iso8601"]).flatmap(times) | times("%Y-%m-%dT%H:%M:%S.%f"), min_size=1, max_size=30),
    st.sampled_from([None, *ZONES, "required"]),
)
def test_generated_texts_of_many_forms_have_equal_results(texts: list[str], zone: Any) -> None:
    column = time_column(zone=zone)
    parsed_texts = [json.loads(text) for text in texts]
    assert decode_fast(parsed_texts, column)[0] == [decode_text(text, column) for text in parsed_texts]
