"""Formats that the bytes of values show: compressed ones, a byte order mark, logfmt, CSV and bare texts."""

import gzip
import json

import pytest
import zstandard

from lakehouse.declaration import Avro, Compressed, Csv, Debezium, Json, Logfmt, Text
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.formats import Format, likely_formats
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.change_records import change

LINES = [json.dumps({"id": number, "price": number / 2}).encode() for number in range(1, 4)]
CSV = [b'1,"a,b",2.50,true\r\n', b"2,,3.75,false\r\n", b"3,c,,true\r\n"]
LOG = [b'level=info msg="a b" ms=5 cached\n', b"level=warn msg=c ms=7\n", b"level=info ms=9\n"]
NUMBERS = [b"21.5", b"21.75", b"-3"]


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([gzip.compress(line) for line in LINES], Compressed(Json(), "gzip")),
        ([zstandard.compress(line) for line in LINES], Compressed(Json(), "zstd")),
        ([gzip.compress(row) for row in CSV], Compressed(Csv([f"column_{n}" for n in range(1, 5)]), "gzip")),
        ([zstandard.compress(change("c", n, {"id": n})) for n in (1, 2)], Compressed(Debezium(), "zstd")),
        ([add_frame(7, gzip.compress(line)) for line in LINES], Compressed(Json(framed=True), "gzip")),
        ([add_frame(7, zstandard.compress(b"\x02\x06abc"))] * 3, Compressed(Avro(), "zstd")),
        ([b"\xef\xbb\xbf" + line for line in LINES], Json()),
        (LOG, Logfmt()),
        ([b"temperature=21.5"], Logfmt()),
        (CSV, Csv([f"column_{n}" for n in range(1, 5)])),
        ([b"1\ta,b\t2", b"2\tc\t3"], Csv(["column_1", "column_2", "column_3"], delimiter="\t")),
        ([b"1;2,5;x", b"2;3,5;y"], Csv(["column_1", "column_2", "column_3"], delimiter=";")),
        ([*CSV, b"4,d"], Csv([f"column_{n}" for n in range(1, 5)])),
        ([*[b'1,"a,b",c'] * 5, b"2,d"], Csv([f"column_{n}" for n in range(1, 4)])),
        ([*[b"1;a"] * 5, b"2;caf\xe9"], Csv(["column_1", "column_2"], delimiter=";")),
        ([b"a|b", b"c|d"], Csv(["column_1", "column_2"], delimiter="|")),
        (NUMBERS, Text()),
        ([b"on", b"off", b"on, for now"], Text()),
        ([b"aGVsbG8=", b"d29ybGQh", b"YWJjZA=="], Text()),
    ],
)
def test_the_format_of_values_is_recognised(values: list[bytes], form: Format) -> None:
    assert likely_formats(values)[0] == form
    assert likely_formats([*values, None, b""])[0] == form


@pytest.mark.parametrize(
    "values",
    [
        [b'{"id": 1', b'{"id": 2'],
        [b"[1, 2]", b"[3, 4]"],
        [b"\x00\x01\x02", b"\x80\x81"],
        [b"a\x00b", b"c\x07d"],
        [gzip.compress(add_frame(7, line)) for line in LINES],
        [gzip.compress(line)[:-9] for line in LINES],
        [b"", None],
        [b" ", b"\n"],
    ],
)
def test_damaged_json_and_binary_values_are_not_taken_for_text(values: list[bytes | None]) -> None:
    (form,) = likely_formats(values)
    assert not form.is_text
    assert not propose(values, form).columns


def test_csv_is_proposed_with_the_types_of_its_texts_and_placeholders_for_names() -> None:
    form = likely_formats(CSV)[0]
    proposal = propose(CSV, form)
    assert {column.name: (column.type, column.required) for column in proposal.columns} == {
        "column_1": ("BIGINT", True),
        "column_2": ("STRING", False),
        "column_3": ("DOUBLE", False),
        "column_4": ("BOOLEAN", True),
    }
    assert (proposal.key, proposal.unread) == ((), 0)
    fields, names = form.notes(CSV)
    assert "4 fields, separated by commas, so the format is Csv" in fields
    assert "column_1 to column_4 are placeholders: replace them in columns= of Csv" in names


def test_texts_have_the_type_that_all_values_of_a_field_have() -> None:
    log = propose(LOG, Logfmt())
    assert {column.name: column.type for column in log.columns} == {
        "level": "STRING",
        "msg": "STRING",
        "ms": "BIGINT",
        "cached": "BOOLEAN",
    }
    assert [column.type for column in propose(NUMBERS, Text()).columns] == ["DOUBLE"]
    for odd in (b"on", b"007", b"1e99999999999999999999"):
        assert [column.type for column in propose([*NUMBERS, odd], Text()).columns] == ["STRING"]
    times = propose([b"2026-01-31,1769817600", b"2026-02-01,1769904000"], Csv(["day", "at"]))
    assert [(column.name, column.type, column.time.pattern, column.time.epoch) for column in times.columns] == [
        ("day", "DATE", "%Y-%m-%d", None),
        ("at", "TIMESTAMP", None, "seconds"),
    ]


def test_a_format_says_why_it_was_recognised() -> None:
    notes = {
        likely_formats(values)[0].name: " ".join(likely_formats(values)[0].notes(values))
        for values in (LOG, NUMBERS, [b"\xef\xbb\xbf" + line for line in LINES])
    }
    assert notes == {
        "Logfmt": "The values are pairs of key=value, so the format is Logfmt.",
        "Text": "The values are neither JSON nor another known format, so each is one text: format Text, field value."
        " To cut fields out of lines, such as those of access logs, write format=Regex(...) or FixedWidth(...).",
        "Json": "Values begin with a byte order mark of UTF-8. It is dropped.",
    }
    assert [*Json().notes(LINES)] == [*Avro().notes(LINES)] == []
    packed = [gzip.compress(row) for row in CSV]
    assert [note.split(",")[0] for note in likely_formats(packed)[0].notes(packed)] == [
        "The values begin with the bytes of gzip",
        "Each value has 4 fields",
        "The names column_1 to column_4 are placeholders: replace them in columns= of Csv and in each Column.",
    ]


@pytest.mark.parametrize("line", [b'{"id": 1, "city": "M\xfcnchen"}', b"1;M\xfcnchen"])
def test_records_in_another_encoding_are_counted_with_the_format_that_reads_them(line: bytes) -> None:
    values = [line.replace(b"\xfc", b"u")] * 9 + [line]
    proposal = propose(values, likely_formats(values)[0])
    (warning,) = [text for text in proposal.warnings if "UTF-8" in text]
    assert warning.startswith("1 of 10 records are not UTF-8")
    form = eval(warning.split("format=")[1].removesuffix("."), {"Json": Json, "Csv": Csv})  # noqa: S307 - our own line
    assert "München" in form.parser()(line).values()


def test_texts_of_csv_that_hold_json_stay_texts() -> None:
    values = [b'1\t{"schema":"x"}\tb', b'2\t{"schema":"y"}\tc']
    proposal = propose(values, likely_formats(values)[0])
    assert [column.type for column in proposal.columns] == ["BIGINT", "STRING", "STRING"]


def test_bytes_unknown_to_one_encoding_lead_to_another() -> None:
    (warning,) = [text for text in propose([b'{"id": 1}', b'{"city": "\x90"}']).warnings if "UTF-8" in text]
    assert 'encoding="latin-1"' in warning.replace("'", '"')


def test_half_an_emoji_does_not_hide_the_field() -> None:
    proposal = propose([b'{"id": 1, "event": "a"}', b'{"id": 2, "event": "\\ud83d"}'])
    assert [(column.name, column.type) for column in proposal.columns] == [("id", "BIGINT"), ("event", "STRING")]
    assert any("'event' has half of a surrogate pair in 1 of 2 values" in text for text in proposal.warnings)
