"""Logfmt: which lines are read, and why others are rejected."""

from typing import Any

import pytest

from lakehouse.declaration import Column, Logfmt
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain, rows_of, verdict_of

LOG = rows_of(
    Logfmt(),
    Column("level", "STRING", "How bad."),
    Column("msg", "STRING", "What."),
    Column("ms", "INT", "How long."),
    Column("cached", "BOOLEAN", "Whether."),
)


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


LOG_REASONS = [
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


@pytest.mark.parametrize(("value", "reason", "detail"), LOG_REASONS, ids=[str(value)[:40] for value, *_ in LOG_REASONS])
def test_what_is_not_one_line_of_pairs_is_rejected(value: bytes | None, reason: str, detail: str) -> None:
    seen_reason, seen_detail = verdict_of(LOG, value)
    assert seen_reason == reason
    assert detail in seen_detail


def test_lines_are_plain() -> None:
    assert count_plain([b"level=info ms=%d" % number for number in range(100)], LOG.rules()) == 100
