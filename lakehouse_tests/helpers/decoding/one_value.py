"""Decode one value of JSON by the rules of a column."""

from typing import Any

from lakehouse.declaration import Column
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import decode


def decode_text(type_: str, text: str, **options: Any) -> Any:
    """The value of a column for a JSON text, or the reason why its record is rejected."""
    field = Column("n", type_, "A field.", **options).field
    try:
        return decode(f'{{"n":{text}}}'.encode(), (field,))["n"]
    except Rejection as rejection:
        return rejection.reason
