"""Deletes are decoded from their key and version alone, on the fast path as on the strict path."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakehouse.declaration import (
    Column,
    Delete,
    Deletes,
    FieldIs,
    Late,
    RecordKey,
    StreamTable,
    Time,
    Tombstone,
    Truncate,
)
from lakehouse.decoding.staged import DELETED, ROWLESS
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.decoding.both_paths import decode_twice

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("revision", "INT", "Version."),
    Column("at", "TIMESTAMP", "When.", required=True, written=Time(epoch="seconds")),
    Column("note", "STRING", "Kept.", keep=True, null_erases=True),
]
TABLE = StreamTable(
    "t",
    "t",
    "",
    COLUMNS,
    ["id"],
    version=BY_REVISION,
    late=Late("at", timedelta(0)),
    deletes=Deletes(when=FieldIs(["source", "op"], ["DELETE", "d", 1, True])),
)


def decode(values: list[bytes | None], table: StreamTable = TABLE, keys: list[bytes] | None = None) -> list[Any]:
    """Decode on both paths, which must agree; return the verdicts."""
    decoded = decode_twice(values, table.rules(), {"key": keys} if keys else {}, [10**15] * len(values))
    assert decoded.unmapped_counts == {}
    return list(decoded.verdicts.to_pylist())


def record(op: Any, **fields: Any) -> bytes:
    return json.dumps({"id": 1, **fields, "source": {"op": op}}).encode()


@pytest.mark.invariant("14.4")
@pytest.mark.parametrize("op", ["DELETE", "d", 1, 1.0, True])
def test_a_delete_needs_only_its_key_and_is_never_late(op: Any) -> None:
    (verdict,) = decode([record(op, revision=7, note=None, at="no time")])
    expected: dict[str, Any] = {"_reason": None, "_detail": None, "_late": False, DELETED: True}
    expected |= {"id": 1, "revision": 7, "at": None, "note": None, "_explicit_null_note": False}
    assert verdict == expected


@pytest.mark.parametrize("op", ["INSERT", "delete", "1", 2, 0, False, None, "D"])
def test_any_other_value_means_a_row(op: Any) -> None:
    (verdict,) = decode([record(op, revision=7, note="x", at=10**9)])
    assert (verdict["_reason"], verdict[DELETED], verdict["note"]) == (None, False, "x")


def test_a_missing_field_or_object_means_a_row() -> None:
    verdicts = decode([b'{"id": 1, "at": 1000000000}', b'{"id": 1, "at": 1000000000, "source": null}'])
    assert [(verdict["_reason"], verdict[DELETED]) for verdict in verdicts] == [(None, False)] * 2


@pytest.mark.invariant("14.4")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": 1, "source": {"op": ["DELETE"]}}', "wrong_type"),
        (b'{"id": 1, "source": {"op": {}}}', "wrong_type"),
        (b'{"id": 1, "source": {"op": "DELETE"}}', "missing_field"),
        (b'{"id": 1, "source": "DELETE"}', "wrong_type"),
        (b'{"id": 1, "source": {"op": "x", "op": "DELETE"}}', "duplicate_name"),
        (b'{"source": {"op": "DELETE"}}', "missing_field"),
        (b'{"id": null, "source": {"op": "DELETE"}}', "null_field"),
        (b'{"id": 1, "revision": "x", "source": {"op": "DELETE"}}', "wrong_type"),
        (None, "tombstone"),
    ],
)
def test_an_invalid_delete_is_rejected(value: bytes | None, reason: str) -> None:
    (verdict,) = decode([value])
    assert (verdict["_reason"], verdict[DELETED], verdict["id"]) == (reason, False, None)


@pytest.mark.invariant("14.4")
def test_a_tombstone_deletes_by_the_key_of_its_record() -> None:
    columns = [Column("id", "BIGINT", "Number.", required=True, source=RecordKey()), COLUMNS[3]]
    table = StreamTable("t", "t", "", columns, ["id"], deletes=Deletes(when=Tombstone()))
    verdicts = decode([b'{"note": "x"}', None, None], table, [b"1", b"2", b"x"])
    assert [(v["id"], v["note"], v["_reason"], v[DELETED]) for v in verdicts] == [
        (1, "x", None, False),
        (2, None, None, True),
        (None, None, "wrong_type", False),
    ]
    assert table.decode(None, key=b"2") == Delete({"id": 2})


def test_one_record_is_decoded_like_many() -> None:
    assert TABLE.decode(record("d", revision=3)) == Delete({"id": 1, "revision": 3})
    assert TABLE.decode_rows(record("d", revision=3)) == [Delete({"id": 1, "revision": 3})]
    assert TABLE.decode(record("c", at=10**9))["at"] is not None


def test_a_delete_and_a_truncate_equal_no_row_and_not_each_other() -> None:
    values = {"id": 1}
    assert Delete(values) == Delete(values)
    assert Truncate(values) == Truncate(values)
    for unlike in (values, Truncate(values), Delete({"id": 2}), None):
        assert Delete(values) != unlike
        assert unlike != Delete(values)
        assert not unlike == Delete(values)  # noqa: SIM201 - both comparisons are defined
    assert repr([Delete(values), Truncate()]) == "[Delete({'id': 1}), Truncate({})]"


TRUNCATES = FieldIs(["source", "op"], ["TRUNCATE"])
TRUNCATED = replace(TABLE, deletes=replace(TABLE.deletes, truncates=TRUNCATES))


@pytest.mark.invariant("14.7")
def test_a_truncate_needs_only_its_version_and_is_never_late() -> None:
    truncate, row, delete = decode(
        [
            b'{"revision": 9, "at": "no time", "source": {"op": "TRUNCATE"}}',
            record("c", at=10**9),
            record("d", revision=1),
        ],
        TRUNCATED,
    )
    assert (truncate["_reason"], truncate["_late"], truncate["revision"], truncate["id"]) == (None, False, 9, None)
    assert [(v[ROWLESS], v[DELETED]) for v in (truncate, row, delete)] == [(True, False), (False, False), (False, True)]
    assert TRUNCATED.decode(record("TRUNCATE", revision=3)) == Truncate({"revision": 3})


@pytest.mark.invariant("14.7")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"source": {"op": "TRUNCATE"}}', "missing_field"),
        (b'{"revision": "x", "source": {"op": "TRUNCATE"}}', "wrong_type"),
    ],
)
def test_an_invalid_truncate_is_rejected(value: bytes, reason: str) -> None:
    (verdict,) = decode([value], TRUNCATED)
    assert (verdict["_reason"], verdict[ROWLESS]) == (reason, False)


def test_a_table_with_truncates_alone_deletes_no_single_row() -> None:
    table = replace(TRUNCATED, deletes=replace(TRUNCATED.deletes, when=None))
    truncate, row = decode([record("TRUNCATE", revision=1), record("d", at=10**9)], table)
    assert [(v[ROWLESS], v[DELETED]) for v in (truncate, row)] == [(True, False), (False, False)]
