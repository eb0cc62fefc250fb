"""CSV and logfmt: which rows and lines are read, and why others are rejected."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, Csv, Deletes, FieldIs, Logfmt, StreamTable
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.decoding.formats.texts.recognition import likely_text_formats
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain, rows_of, verdict_of

COLUMNS = [
    Column("id", "INT", "Which."),
    Column("name", "STRING", "Who."),
    Column("price", "DECIMAL(9,2)", "How much."),
]
ROWS = rows_of(Csv(["id", "name", "price"]), *COLUMNS)
LOG = rows_of(
    Logfmt(),
    Column("level", "STRING", "How bad."),
    Column("msg", "STRING", "What."),
    Column("ms", "INT", "How long."),
    Column("cached", "BOOLEAN", "Whether."),
)
TABS = rows_of(Csv(["id", "name", "price"], delimiter="\t"), *COLUMNS)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"1,Ann,2.50", "Ann"),
        (b"1,Ann,2.50\n", "Ann"),
        (b"1,Ann,2.50\r\n", "Ann"),
        (b'"1","Ann","2.50"\r\n', "Ann"),
        (b"\xef\xbb\xbf1,Ann,2.50", "Ann"),
        (b"1,,2.50", None),
        (b'1,"",2.50', ""),
        (b"1, Ann ,2.50", " Ann "),
        (b'1,"a, ""b""",2.50', 'a, "b"'),
        (b'1,"""",2.50', '"'),
        (b'1,"a\r\nb\rc\n",2.50', "a\r\nb\rc\n"),
        ("1,\u2028é,2.50".encode(), "\u2028é"),
        (b"1,name,2.50", "name"),
    ],
)
def test_a_row_of_csv_has_the_fields_of_rfc_4180(value: bytes, name: str | None) -> None:
    row = verdict_of(ROWS, value)
    assert (row["id"], row["name"], str(row["price"])) == (1, name, "2.50")


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b"level=info msg=done ms=5 cached", {"level": "info", "msg": "done", "ms": 5, "cached": True}),
        (b"\xef\xbb\xbflevel=info\n", {"level": "info"}),
        (b" \tlevel=info \t ms=5 \r\n", {"level": "info", "ms": 5}),
        (b'msg="a b=c \\"d\\" \\\\ \\n \\u00e9 \\x1b \\U0001f600"', {"msg": 'a b=c "d" \\ \n é \x1b \U0001f600'}),
        (b'msg="\\ud83d\\ude00"', {"msg": "\U0001f600"}),
        (b'level= msg=""', {"level": "", "msg": ""}),
        (b"msg=http://host/?a=b&c=d", {"msg": "http://host/?a=b&c=d"}),
        (b"msg=null cached=false", {"msg": "null", "cached": False}),
        (b'msg="a\nb"', {"msg": "a\nb"}),
        (b"level", {"level": "true"}),
        ("ключ=1 msg=é".encode(), {"msg": "é"}),
    ],
)
def test_a_line_of_logfmt_has_the_fields_of_its_pairs(value: bytes, row: dict[str, Any]) -> None:
    assert verdict_of(LOG, value) == dict.fromkeys(LOG.by_name) | row


CSV_REASONS: list[tuple[bytes | None, str, str]] = [
    (None, "tombstone", "no value"),
    (b"", "empty_value", "empty"),
    (b"1,\xff,2", "invalid_utf8", "the byte at place 2"),
    (b"1,Ann", "wrong_field_count", "the row has 2 fields, expected 3"),
    (b"1,Ann,2,", "wrong_field_count", "the row has 4 fields, expected 3"),
    (b"\n", "wrong_field_count", "the row has 1 field, expected 3"),
    (b",".join([b"1"] * 1_001), "wrong_field_count", "the row has 1,001 fields, expected 3"),
    (b'"1",Ann', "wrong_field_count", "the row has 2 fields, expected 3"),
    (b"1,Ann,2\n2,Bob,3\n", "trailing_bytes", "a second line begins at character 8"),
    (b"1,Ann,2\n\n", "trailing_bytes", "a second line begins at character 8"),
    (b'1,"Ann",2\r\n2,"Bob",3', "trailing_bytes", "a second line begins at character 11"),
    (b"1,Ann,2\r", "invalid_csv", "the carriage return at character 7 has no line feed"),
    (b'1,"Ann",2\r', "invalid_csv", "the carriage return at character 9 has no line feed"),
    (b'1,A"nn,2', "invalid_csv", "a stray quote at character 3"),
    (b'1, "Ann",2', "invalid_csv", "a stray quote at character 3"),
    (b'1,"An"n,2', "invalid_csv", "a closing quote before character 6"),
    (b'1,"Ann" ,2', "invalid_csv", "a closing quote before character 7"),
    (b'1,"Ann,2', "truncated", "the quote at character 2 is not closed"),
    (b'1,"Ann"",2', "truncated", "the quote at character 2 is not closed"),
    (b"id,name,price\r\n", "header_line", "the names of the columns"),
    (b'"id","name","price"', "header_line", "the names of the columns"),
    (b"x,Ann,2", "wrong_type", "'id' is text 'x', expected INT"),
    (b'1,"a""' + b'""' * 500_000, "truncated", "the quote at character 2 is not closed"),
]


LOG_REASONS: list[tuple[bytes | None, str, str]] = [
    (None, "tombstone", "no value"),
    (b"", "empty_value", "empty"),
    (b" \t ", "empty_value", "contains no pair"),
    (b"msg=\xff", "invalid_utf8", "the byte at place 4"),
    (b"level=a ms=1 level=b", "duplicate_name", "'level' occurs more than once"),
    (b"level level", "duplicate_name", "'level' occurs more than once"),
    (b"=x", "invalid_logfmt", "character 0 is '='"),
    (b'level=a"b', "invalid_logfmt", "character 7 is '\"'"),
    (b'"level"=a', "invalid_logfmt", "character 0 is '\"'"),
    (b'msg="a"b', "invalid_logfmt", "character 7 is 'b'"),
    (b"msg=a\x00b", "invalid_logfmt", "character 5 is '\\x00'"),
    (b'msg="\\q"', "invalid_logfmt", "an escape that is not known"),
    (b'msg="\\xff"', "invalid_logfmt", "an escape that is not known"),
    (b'msg="\\U99999999"', "invalid_logfmt", "an escape that is not known"),
    (b'msg="\\UFFFFFFFF"', "invalid_logfmt", "an escape that is not known"),
    (b'msg="\\u00', "truncated", "the quote in the pair at character 0 is not closed"),
    (b'ms=1 msg="a', "truncated", "the quote in the pair at character 5 is not closed"),
    (b'msg="a\\', "truncated", "is not closed"),
    (b"msg=a\nmsg=b", "trailing_bytes", "a second line begins at character 6"),
    (b"msg=a\r\n\r\n", "trailing_bytes", "a second line begins at character 6"),
    (b'msg="\\ud800"', "invalid_text", "half of a surrogate pair"),
    (b"ms=5ms", "wrong_type", "'ms' is text '5ms', expected INT"),
    (b'msg="' + b"\\n" * 500_000, "truncated", "is not closed"),
    (b"a " * 500_000, "duplicate_name", "'a' occurs"),
]


@pytest.mark.parametrize(
    ("table", "value", "reason", "detail"),
    [*((ROWS, *case) for case in CSV_REASONS), *((LOG, *case) for case in LOG_REASONS)],
    ids=lambda part: str(part)[:40] if isinstance(part, bytes) else "",
)
def test_what_is_not_one_row_or_one_line_is_rejected(
    table: StreamTable, value: bytes | None, reason: str, detail: str
) -> None:
    seen_reason, seen_detail = verdict_of(table, value)
    assert seen_reason == reason
    assert detail in seen_detail


def test_another_delimiter_separates_fields() -> None:
    assert verdict_of(TABS, b"1\ta,b\t2")["name"] == "a,b"
    assert verdict_of(TABS, b'1\t"a\tb"\t2')["name"] == "a\tb"
    for delimiter in ("|", "^", "]", "\\", "-", " ", "é"):
        table = rows_of(Csv(["id", "name", "price"], delimiter=delimiter), *COLUMNS)
        assert verdict_of(table, delimiter.join(["1", "a,b", "2"]).encode())["name"] == "a,b"
        assert verdict_of(table, delimiter.join(["1", f'"{delimiter}"', "2"]).encode())["name"] == delimiter


def test_an_empty_field_without_quotes_erases_a_kept_value() -> None:
    column = Column("name", "STRING", "Who.", keep=True, null_erases=True)
    table = StreamTable("rows", "rows", "", [replace(COLUMNS[0], required=True), column], ["id"], format=ROWS.format)
    empty, quoted = rows_twice([b"1,,", b'1,"",'], table.rules())
    assert (empty["_explicit_null_name"], quoted["_explicit_null_name"]) == (True, False)


def test_a_field_of_a_text_format_says_which_records_delete() -> None:
    columns = [replace(COLUMNS[0], required=True), COLUMNS[1]]
    deletes = FieldIs("price", ["gone"])
    table = StreamTable("rows", "rows", "", columns, ["id"], format=ROWS.format, deletes=Deletes(when=deletes))
    kept_row, deleted_row = rows_twice([b"1,Ann,1", b"1,Ann,gone"], table.rules())
    assert (kept_row["_deleted"], deleted_row["_deleted"]) == (False, True)


def test_without_quotes_a_quote_is_a_letter_like_any_other() -> None:
    table = rows_of(Csv(["id", "name", "price"], delimiter="\t", quotes=False), *COLUMNS)
    for name in ('{"a": 1}', '"', '""', 'a "b', '"a" ', "x"):
        assert verdict_of(table, f"1\t{name}\t2.50\n".encode())["name"] == name
    assert verdict_of(table, b"1\t\t2.50")["name"] is None
    assert verdict_of(table, b'1\t"a\tb"\t2')[0] == "wrong_field_count"
    assert verdict_of(table, b'1\t"a\n\t2')[0] == "trailing_bytes"


def test_a_text_that_would_need_quotes_is_not_written_without_them() -> None:
    write = Csv(["id", "name"], quotes=False).writer()
    assert write(b'{"id": 1, "name": "a \\"b\\""}') == b'1,a "b"'
    assert write(b'{"id": 1}') == b"1,"
    for name in ("a,b", "a\\n", "\\r", ""):
        with pytest.raises(UnwritableError, match="which a row without quotes cannot have"):
            write(f'{{"id": 1, "name": "{name}"}}'.encode())


def test_rows_with_quotes_within_fields_are_recognised() -> None:
    values = [b'1\t{"a": "b"}\tx', b'2\t\t"']
    assert likely_text_formats(values) == (Csv(["column_1", "column_2", "column_3"], delimiter="\t", quotes=False),)
    assert likely_text_formats([b'1\t"a"\tx', b"2\tb\t"]) == (Csv(["column_1", "column_2", "column_3"], "\t"),)


def test_rows_and_lines_are_plain() -> None:
    assert count_plain([b"%d,Ann,%d.50" % (number, number) for number in range(100)], ROWS.rules()) == 100
    assert count_plain([b"level=info ms=%d" % number for number in range(100)], LOG.rules()) == 100
