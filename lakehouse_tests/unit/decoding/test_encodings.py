"""Encodings other than UTF-8: every byte that an encoding defines is read, every other one rejects the record."""

import json
from typing import Any

import pytest

from lakehouse.declaration import Column, Csv, Debezium, Json, Logfmt, StreamTable, Text
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.unpacking.parser import encoding_problems
from lakehouse_tests.helpers.change_records import change
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain

NAME = Column("name", "STRING", "A text.")


def table_of(form: Format, *columns: Column) -> StreamTable:
    return StreamTable("names", "names", "Names.", columns or [NAME], [], format=form)


def verdict_of(form: Format, value: bytes, *columns: Column) -> dict[str, Any]:
    (verdict,) = rows_twice([value], table_of(form, *columns).rules())
    return verdict


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Json(encoding="latin-1"), '{"name":"Zoë"}'),
        (Json(encoding="cp1252"), '{"name":"Zoë","é":"€"}'),
        (Json(encoding="cp037"), '{"name":"Zoë"}'),
        (Csv(["name", "price"], encoding="latin-1"), "Zoë,5"),
        (Csv(["name", "price"], delimiter="§", encoding="latin-1"), "Zoë§5"),
        (Logfmt(encoding="iso8859-15"), "name=Zoë"),
        (Json(encoding="UTF8"), '{"name":"Zoë"}'),
    ],
)
def test_a_text_in_its_declared_encoding_is_read(form: Any, text: str) -> None:
    verdict = verdict_of(form, text.encode(form.encoding))
    assert (verdict["_reason"], verdict["name"]) == (None, "Zoë")
    assert count_plain([text.encode(form.encoding)] * 9, table_of(form).rules()) == 9


def test_every_byte_is_the_character_of_its_encoding_or_rejects_the_record() -> None:
    column = Column("name", "STRING", "A text.", source="value")
    for encoding in ("latin-1", "cp1252", "cp1251", "koi8-r", "cp037", "ascii"):
        values = [bytes([number]) for number in range(256)]
        verdicts = rows_twice(values, table_of(Text(encoding=encoding), column).rules())
        for number, (value, verdict) in enumerate(zip(values, verdicts, strict=True)):
            try:
                assert (verdict["_reason"], verdict["name"]) == (None, value.decode(encoding))
            except UnicodeDecodeError:
                assert verdict["_reason"] == "invalid_encoding"
                assert verdict["_detail"] == f"byte 0 is 0x{number:02x}, which {encoding} does not define"


def test_bytes_without_a_declared_encoding_are_not_guessed() -> None:
    assert verdict_of(Json(), '{"name":"Zoë"}'.encode("latin-1"))["_reason"] == "invalid_utf8"
    assert verdict_of(Json(encoding="latin-1"), '{"name":"Zoë"}'.encode())["name"] == "ZoÃ«"


def test_a_byte_order_mark_is_only_dropped_in_utf8() -> None:
    column = Column("name", "STRING", "A text.", source="value")
    assert verdict_of(Text(), b"\xef\xbb\xbfx", column)["name"] == "x"
    assert verdict_of(Text(encoding="latin-1"), b"\xef\xbb\xbfx", column)["name"] == "ï»¿x"


def test_a_framed_record_has_its_encoding_after_its_frame() -> None:
    form = Json(framed=True, encoding="latin-1")
    value = form.writer(7)('{"name":"Zoë"}'.encode())
    assert value == b'\x00\x00\x00\x00\x07{"name":"Zo\xeb"}'
    assert verdict_of(form, value)["name"] == "Zoë"
    assert verdict_of(form, value[5:])["_reason"] == "wrong_magic"


def test_changes_of_a_database_have_the_encoding_of_their_json() -> None:
    form = Debezium(Json(encoding="latin-1"))
    columns = [Column("id", "INT", "Which.", required=True), NAME]
    table = StreamTable("names", "names", "Names.", columns, ["id"], format=form)
    value = json.dumps(json.loads(change("c", 1, {"id": 1, "name": "Zoë"})), ensure_ascii=False).encode("latin-1")
    assert table.decode(value) == {"id": 1, "name": "Zoë"}


@pytest.mark.parametrize(
    "encoding",
    ["utf-16", "utf-16-le", "utf-32", "utf-7", "shift_jis", "gb18030", "hz", "idna", "rot13", "hex"],
)
def test_an_encoding_with_state_or_several_bytes_is_refused(encoding: str) -> None:
    ((message, action),) = encoding_problems(encoding)
    assert "does not have one byte for each character" in message
    assert action.endswith("Have other records sent in UTF-8.")
