"""Keys with a window at their end, as Kafka Streams and ksqlDB write them, on both paths."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import Deletes, writer_schema
from lakehouse.declaration import Column, RecordKey, Rejection, StreamTable, Tombstone
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.decoding.both_paths import rows_of_keys
from lakehouse_tests.helpers.decoding.native import uncertain_records

START = Column("start", "TIMESTAMP", "Begin.", source=RecordKey("window_start"), required=True)
END = Column("end", "TIMESTAMP", "End.", source=RecordKey("window_end"), required=True)
COUNT = Column("n", "INT", "A field.")
TEN, ELEVEN = (datetime(2026, 1, 31, hour, tzinfo=UTC) for hour in (10, 11))


def table_of(source: RecordKey, *columns: Column, type_: str = "STRING") -> StreamTable:
    key = Column("word", type_, "Which.", source=source, required=True)
    names = ["word", *(column.name for column in columns)] if type_ != "BINARY" else []
    deletes = Tombstone() if names else None
    return StreamTable("t", "t", "T.", [key, *columns, COUNT], names, deletes=Deletes(when=deletes))


def encode(key: bytes, *times: datetime | int) -> bytes:
    """The key, and each time as eight bytes."""
    numbers = [time if isinstance(time, int) else int(time.timestamp() * 1000) for time in times]
    return key + b"".join(number.to_bytes(8, "big", signed=True) for number in numbers)


WINDOWED = table_of(RecordKey(window="time"), START)
SESSIONS = table_of(RecordKey(window="session"), START, END)
JSON_KEYS = table_of(RecordKey("json", "id", window="time"), START)


def test_the_start_of_a_time_window_follows_the_key() -> None:
    key = b"tea\x00\x00\x01\x9c\x13\x7e\xc1\x00"
    assert key == encode(b"tea", TEN)
    assert WINDOWED.decode(b'{"n":2}', key=key) == {"word": "tea", "start": TEN, "n": 2}
    (row,) = rows_of_keys([key], WINDOWED)
    assert (row["word"], row["start"], row["_reason"]) == ("tea", TEN, None)
    rules = WINDOWED.rules()
    parts = {"key": pa.array([key])}
    assert uncertain_records(pa.array([b'{"n":1}']), None, rules, parts) == []


def test_the_end_and_the_start_of_a_session_follow_the_key() -> None:
    (row,) = rows_of_keys([encode("é".encode(), ELEVEN, TEN)], SESSIONS)
    assert (row["word"], row["start"], row["end"]) == ("é", TEN, ELEVEN)


def test_a_key_without_text_is_a_window_alone() -> None:
    assert [row["word"] for row in rows_of_keys([encode(b"", 0)], WINDOWED)] == [""]


def test_a_tombstone_deletes_the_row_of_a_window() -> None:
    assert SESSIONS.decode(None, key=encode(b"tea", ELEVEN, TEN))["end"] == ELEVEN


def test_every_form_of_a_key_may_have_a_window() -> None:
    number = table_of(RecordKey("big_endian", window="session"), type_="BIGINT")
    assert number.decode(b"{}", key=encode(b"", 7, ELEVEN, TEN))["word"] == 7
    whole = table_of(RecordKey(window="time"), type_="BINARY")
    assert whole.decode(b"{}", key=encode(b"\xff", TEN))["word"] == b"\xff"
    assert JSON_KEYS.decode(b"{}", key=encode(b'{"id":"tea"}', TEN)) == {"word": "tea", "start": TEN, "n": None}
    schemas = {7: writer_schema('"string"', of_key=True)}
    avro = table_of(RecordKey("avro", window="session"), START)
    key = encode(add_frame(7, b"\x06tea"), ELEVEN, TEN)
    assert avro.decode(b"{}", key=key, schemas=schemas)["word"] == "tea"


@pytest.mark.parametrize("table", [WINDOWED, SESSIONS, JSON_KEYS], ids=["time", "session", "json"])
def test_a_key_without_such_a_window_rejects_the_record(table: StreamTable) -> None:
    size = 16 if table is SESSIONS else 8
    text = b'{"id":"tea"}' if table is JSON_KEYS else b"tea"
    damaged = [b"", text, b"only-text-of-20-bytes", encode(text, TEN)[:-1], encode(text, -1, -1)]
    damaged += [encode(text, 2**62, 2**62), encode(text, 0, 253_402_300_800_000)]
    damaged += [encode(text, TEN, ELEVEN)] if table is SESSIONS else []  # the end is before the start
    for row in rows_of_keys(damaged, table):
        assert row["_reason"] == "wrong_type"
        assert f"the last {size} bytes of the key are not those of a" in row["_detail"]
    with pytest.raises(Rejection, match="is required"):
        table.decode(b"{}", key=None)


def test_a_changelog_of_a_window_store_is_not_such_a_topic() -> None:
    key = encode(b"tea", TEN) + bytes(4)  # the number of the record
    assert [row["_reason"] for row in rows_of_keys([key], WINDOWED)] == ["wrong_type"]


def test_a_text_key_with_a_window_is_still_text() -> None:
    reasons = [
        row["_reason"] for row in rows_of_keys([encode(b"\xff", TEN), encode(b"a\n", TEN), encode(b"a", TEN)], WINDOWED)
    ]
    assert reasons == ["invalid_utf8", "invalid_text", None]


def test_the_window_is_part_of_the_fingerprint_and_the_snapshot() -> None:
    bare = table_of(RecordKey())
    windowed = table_of(RecordKey(window="time"))
    assert bare.fingerprint != windowed.fingerprint != table_of(RecordKey(window="session")).fingerprint
    assert [*differences(facts_of(bare), facts_of(windowed))] == [
        ("column word", "column word: takes was RecordKey(), is RecordKey(window='time')")
    ]
    assert repr(RecordKey("json", "id", window="time")) == "RecordKey('json', 'id', window='time')"


_times = st.sampled_from([TEN, ELEVEN, 0, -1, 1, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1])
_texts = (
    st.text(max_size=3).map(str.encode)
    | st.binary(max_size=9)
    | st.text(max_size=2).map(lambda text: json.dumps({"id": text}).encode())
)
_keys = st.builds(lambda text, times: encode(text, *times), _texts, st.lists(_times, max_size=3))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("table", [WINDOWED, SESSIONS, JSON_KEYS], ids=["time", "session", "json"])
@given(keys=st.lists(_keys | st.none(), min_size=1, max_size=8))
def test_both_paths_give_the_same_rows(table: StreamTable, keys: list[bytes | None]) -> None:
    rows_of_keys(keys, table)
