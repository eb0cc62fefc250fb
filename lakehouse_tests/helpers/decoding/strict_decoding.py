"""Decode one field of a record by the strict rules, which the tests of decoding share."""

from typing import Any

import pytest

from lakehouse.declaration import Column, Time
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.records import decode
from lakehouse.examples.tables.temperatures import temperatures

GOOD = b'{"latitude":51.5,"longitude":-0.099990845,"time":"2023-01-01T05:00","temperature_2m":10.4}'


def field(type_: str, **changes: Any) -> Field:
    pattern = {"DATE": "%Y-%m-%d", "TIMESTAMP": "%Y-%m-%dT%H:%M"}.get(type_)
    return Column("n", type_, "A field.", written=Time(pattern), **changes).field


def value_of(text: str, type_: str) -> Any:
    return decode(b'{"n":' + text.encode() + b"}", (field(type_),))["n"]


def rejection_of(value: bytes | None, fields: tuple[Field, ...] = temperatures.fields) -> Rejection:
    with pytest.raises(Rejection) as rejected:
        decode(value, fields)
    return rejected.value
