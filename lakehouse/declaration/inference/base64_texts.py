"""Texts in base64: a proposal says how to store their bytes, or how to read the JSON that they hold."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.declaration.inference.column_lines import column_line, source_text
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.json_parsing import parse_json, utf8_text

_LEAST_LENGTH = 8  # letters: shorter words are also valid base64
_read = byte_reader("base64")


def base64_warnings(columns: Iterable[tuple[Column, Sequence[Any]]], *, holds_json: bool) -> Iterator[str]:
    """Yield what to write for columns of texts in base64, with their values.

    Texts of which none ends with = are perhaps only words. ``holds_json``: the text of one field may hold JSON.
    """
    for column, values in columns:
        is_likely = column.type == "STRING" and not column.pattern and any(str(v).endswith("=") for v in values)
        contents = [_read(value) for value in values if len(str(value)) >= _LEAST_LENGTH] if is_likely else []
        if not contents or len(contents) < len(values) or None in contents:
            continue
        if holds_json and all(map(_holds_object, contents)):
            path, names = column.field.names, source_text((*column.field.names, "NAME"))
            options = f"format=Json(in_base64={source_text(path)}) and source={names}"
            yield f"{column.name} is JSON in base64. To read its fields, write {options}."
        else:
            line = column_line(replace(column, type="BINARY", written="base64"))
            yield f"{column.name} looks like bytes in base64. To store the bytes, write {line}."


def _holds_object(content: bytes | None) -> bool:
    try:
        return isinstance(parse_json(utf8_text(content or b"")), dict)
    except Rejection:
        return False
