"""Texts decoded to times in UTC, one by one by the strict rules and many at once by the fast path."""

import json
from datetime import date, timedelta

import pyarrow as pa

from lakehouse.declaration import Column, Time, Zone
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.values import convert_value
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records


def time_column(pattern: str = "iso8601", zone: str | Zone | None = None, type_: str = "TIMESTAMP") -> Column:
    return Column("n", type_, "A time.", written=Time(pattern, zone=zone))


def decode_text(text: str, column: Column) -> str:
    """The time in ISO 8601, or the reason why the text is rejected."""
    try:
        time = convert_value(text, column.field)
    except Rejection as rejection:
        return rejection.reason
    assert type(time) is date or time.utcoffset() == timedelta(0)
    return str(time.isoformat()).removesuffix("+00:00")


def decode_fast(texts: list[str], column: Column) -> tuple[list[str], int]:
    """The times or reasons for records with these texts, and how many of them the strict path decoded."""
    values = pa.array([json.dumps({"n": text}).encode() for text in texts], pa.binary())
    rules = Rules((column.field,), None)
    rows = decode_values(values, None, rules, NATIVE).verdicts.to_pylist()
    results = [row["_reason"] or row["n"].isoformat().removesuffix("+00:00") for row in rows]
    return results, len(uncertain_records(values, None, rules))
