"""Hypothesis strategies for columns and values of formats that have only texts."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from lakehouse.declaration import Column, Time
from lakehouse.declaration.rules.column_rules import column_problems
from lakehouse_tests.helpers.tables.written import (
    DAYS,
    EDGES,
    NUMBERS,
    ODD_VALUES,
    TIME_TEXTS,
    TIMES,
    numbers,
    right_text,
)

ODD_TEXTS = (
    *("", " ", "1 ", " 1", "01", "+1", "1,5", "1_000", "0x1", "\u0661", "TRUE", "true", "\x00", "é", "\u2028", "a=b"),
    *ODD_VALUES,
    *(text.strip('"') for text in TIME_TEXTS),
)
ODD_BYTES = (b"\xff", b"\x00", b"\xed\xa0\x80", b'"', b"\\", b",", b"\n", b"\r", b"\r\n", b"=", b" ", b"\xef\xbb\xbf")
NULL_VALUES = ("", "n/a", "-999", "1", "true")


@st.composite
def text_columns(draw: st.DrawFn, name: str) -> Column:
    """A column of a scalar type, with any of the options that change how its text is read."""
    type_ = draw(st.sampled_from([*NUMBERS, "DATE", "TIMESTAMP", "STRING", "BOOLEAN"]))
    options: dict[str, Any] = {"required": draw(st.booleans())}
    if type_ in ("DATE", "TIMESTAMP"):
        if draw(st.booleans()):
            options["written"] = Time(draw(st.sampled_from(DAYS if type_ == "DATE" else TIMES)))
        else:
            unit: Any = "days" if type_ == "DATE" else draw(st.sampled_from(["seconds", "milliseconds"]))
            options["written"] = Time(epoch=unit)
    if type_ in NUMBERS:
        options["between"] = draw(st.sampled_from([None, None, (0, 100), (-5, 12345.5)]))
    if not draw(st.integers(0, 3)):
        options["null_values"] = NULL_VALUES
    if not options["required"] and not draw(st.integers(0, 3)):
        return Column(name, type_, "A field.", keep=True, null_erases=True, **options)
    column = Column(name, type_, "A field.", **options)
    default: Any = {"STRING": "x", "BOOLEAN": True}.get(type_, 0)
    with_default = replace(column, default=default)
    is_possible = not options["required"] and not [*column_problems(with_default)]
    return with_default if is_possible and draw(st.booleans()) else column


def texts(column: Column) -> st.SearchStrategy[str]:
    """Texts that a column accepts, and others."""
    right_texts = right_text(column).map(lambda text: text.strip('"'))
    return right_texts | right_texts | numbers() | st.sampled_from([*ODD_TEXTS, *EDGES])


@st.composite
def spoiled(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes | None:
    """A value that is sometimes cut off, longer, empty, missing, or has an odd byte."""
    value = draw(values)
    position = draw(st.integers(0, len(value)))
    changes = {
        0: value[:position],
        1: value + draw(st.sampled_from(ODD_BYTES)),
        2: value[:position] + draw(st.sampled_from(ODD_BYTES)) + value[position:],
        3: b"\xef\xbb\xbf" + value,
        4: value + draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"])),
        5: draw(st.sampled_from([None, b"", b"\n", b" "])),
    }
    return changes.get(draw(st.integers(0, 11)), value)
