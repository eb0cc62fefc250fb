"""Hypothesis strategies for records of all types, valid and invalid ones."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil, floor
from typing import Any

from hypothesis import strategies as st

from lakehouse.declaration import Column, Late, Time
from lakehouse.declaration.rules.column_rules import column_problems
from lakehouse.decoding.fields import Epoch
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.times import EPOCHS
from lakehouse_tests.helpers.tables.written_times import ZONES, times

DECIMALS = ("DECIMAL(9,6)", "DECIMAL(38,18)", "DECIMAL(5,0)", "DECIMAL(3,3)", "DECIMAL(18,2)", "DECIMAL(38,38)")
NUMBERS = ("INT", "BIGINT", "DOUBLE", *DECIMALS)
DAYS = ("%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%Y", "iso8601")
TIMES = (
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%fZ",
    "%d/%m/%Y %Hh",
    "%fµs %S:%M:%H %d-%m-%Y",
    "%Y%m%d%H%M%S%f",
    "%f%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%f%S",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%z %Y-%m-%d",
    "iso8601",
)
SOURCES = ("n", "at", "é", 'a"b', "a\\b")
PATHS = (("n",), ("in", "n"), ("in", "at"), ("in", "in", "n"), ("at", "n"))
SPACE = st.sampled_from(["", "", "", " ", "\n\t ", "\r"])
DIGITS = st.text("0123456789", min_size=1, max_size=22)
EDGES = (
    "0 -0 0.0 -0.0 0e9 0e999999999 0e9999999999999999999999 1e-999999999 1e-9999999999999999999999 5e-324 2e-324"
    " 1e400 -1e400 1e999999999999999999999 1e308 1.7976931348623159e308 1E2 2.5 0.5 1.5 -0.5 0.0000005 0.00000049999999"
    " 0.0000005000000000000000000000000000000000001 1.0000005 1.0000014999999999999999 12345.0 7.0 99999.5 99999.49999"
    " 2147483647 2147483648 -2147483648 -2147483649 9007199254740991 9007199254740992 9007199254740993"
    " 9007199254740994 9007199254740996 -100000 99999 1 -1 0.9999"
    " 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809"
    " 18446744073709551615 18446744073709551616"
    " 0.1 0.3 0.30000000000000004 0.29999999999999999 0.1000000000000000055 -0.1 1e22 1e23 281474976.710656"
    " 0.123456499999999999999 8.5e-7 123456789012345678901234567890 0.99949999999999994 0.9995"
).split()
ODD_VALUES = (
    'null true false NaN Infinity -Infinity "" "x" "1.5" "true" "null" [] {} [1,2] {"a":1,"a":2} {"a":{"a":"a"}} nul'
    ' [[[["x"]]]] "\\ud800" "\\ud83d\\ude00" "\\u0000" "a\\"b" "\\\\" "\\u0022" "é" "\x00" "\\x" "\t" 01 1. .5 +1 - 1e'
    ' "{\\"a\\":1}" "e999999999" 0x1 tru "1'
).split(" ")
TIME_EDGES = (
    '"2024-02-29T12:30" "2023-02-29T12:30" "2023-13-01T00:00" "2023-00-01T00:00" "2023-01-00T00:00" "2023-01-01T24:00"'
    ' "0000-01-01T00:00" "0001-01-01T00:00" "9999-12-31T23:59" "2023-1-01T00:00"'
    ' "2023-01-01t00:00" "\uff12\uff10\uff12\uff13-01-01T00:00"'
    ' "2023-01-01T00:00 " "2016-12-31 23:59:60" "2016-12-31 23:59:61" "1900-02-29" "2000-02-29" "19000229" "30.04.2023"'
    ' "31.04.2023" "2023" "0000" "2023-01-01T00:00:00.Z" "2023-01-01T00:00:00.1Z" "2023-01-01T00:00:00.123456Z"'
    ' "2023-01-01T00:00:00.1234567Z" "2023-01-01" "1969-12-31" "\\u0032023-01-01T00:00"'
    ' "2023-01-01T0:000" "2023-01-01T/0:00" "2023-01-01 00:00:12345"'
).split('" "')
TIME_TEXTS = tuple(f'"{text.strip(chr(34))}"' for text in TIME_EDGES)
ODD_BYTES = (b"\xff", b"\x00", b"\xed\xa0\x80", b'"', b"\\", b",")
WHOLE_RECORDS = (*rb"""| |null|1|[]|"x"|{|{}|{} x|{}{}|NaN""".split(b"|"), b"\xff", b"{}\x00", b"\xef\xbb\xbf{}")


@dataclass(frozen=True)
class WrittenBatch:
    """Records, their broker times, and the rules that apply to them."""

    values: list[bytes | None]
    broker_times: list[int | None]
    rules: Rules


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    type_ = draw(st.sampled_from([*NUMBERS, "DATE", "TIMESTAMP", "TIMESTAMP", "STRING", "BOOLEAN"]))
    rules: dict[str, Any] = {"required": draw(st.booleans()), "source": draw(st.sampled_from(SOURCES))}
    if type_ in ("DATE", "TIMESTAMP"):
        if draw(st.integers(0, 2)):
            pattern = draw(st.sampled_from(DAYS if type_ == "DATE" else TIMES))
            zones: st.SearchStrategy[Any] = st.none() | st.sampled_from(ZONES)
            has_zone = type_ == "TIMESTAMP" and not re.search("%z|Z", pattern)
            rules["written"] = Time(pattern, zone=draw(zones) if has_zone else None)
        else:
            rules["written"] = Time(epoch="days" if type_ == "DATE" else draw(st.sampled_from([*EPOCHS])))
    bounds = [(0, 100), (-90, 90), (0.1, 0.3), (-5, 12345.5), (9007199254740992, 9007199254740993)]
    rules["between"] = draw(st.sampled_from([None, None, *bounds])) if type_ in NUMBERS else None
    if not draw(st.integers(0, 3)):
        rules["source"] = draw(st.sampled_from(PATHS))
    if not rules["required"] and not draw(st.integers(0, 3)):
        rules |= {"keep": True, "null_erases": True, "null_values": draw(st.sampled_from([(), ("x", "1")]))}
    column = Column(name, type_, "A field.", **rules)
    if rules["required"] or column.keep or draw(st.integers(0, 3)):
        return column
    with_default = replace(column, default=_default(type_, **rules))
    return column if [*column_problems(with_default)] else with_default


def _default(type_: str, between: tuple[float, float] | None, written: Time | None = None, **_: Any) -> Any:
    if written and written.pattern:
        return datetime(2023, 4, 5, 6, 7, 8, 9, UTC).strftime(written.pattern.replace("iso8601", "%Y-%m-%d"))
    if between:
        integer = ceil(between[0])
        return integer if integer <= between[1] else between[1]
    return {"STRING": "x", "BOOLEAN": True}.get(type_, 0)


def numbers() -> st.SearchStrategy[str]:
    """Numbers in JSON; numbers near a rounding tie and near the limits of a type are frequent."""
    ties = st.tuples(DIGITS, st.integers(0, 19), st.sampled_from(["5", "49999999999999999", "50000000000000001"]))
    near_ties = ties.map(lambda tie: f"{int(tie[0][:9])}.{tie[0][: tie[1]]}{tie[2]}")
    decimals = st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), st.integers(0, 99999), DIGITS)
    scaled_numbers = st.builds("{}e{}".format, decimals, st.integers(-30, 30))
    return st.sampled_from(EDGES) | near_ties | decimals | scaled_numbers | st.integers(-(2**65), 2**65).map(str)


def moments(epoch: Epoch) -> st.SearchStrategy[str]:
    """Numbers that are times: recent ones, and times near the first and the last possible one."""
    if epoch == "days":
        return st.integers(-800_000, 3_000_000).map(str) | st.sampled_from(["-719162", "-719163", "2932896", "2932897"])
    digits = EPOCHS[epoch]
    first, last = -62_135_596_800 * 10 ** (6 - digits), 253_402_300_800 * 10 ** (6 - digits)
    seconds = st.integers(0, 2 * 10**9).map(lambda second: second * 10 ** (6 - digits))
    edges = st.sampled_from([first, last]).flatmap(lambda edge: st.integers(edge - 2, edge + 2))
    fractions = st.sampled_from(["", "", ".5", ".000001", ".0000005", ".00000049999999999", ".123456789", ".9999999"])
    return st.builds("{}{}".format, seconds | edges, fractions)


def right_text(column: Column) -> st.SearchStrategy[str]:
    """Values that the column usually accepts; bounds are ignored."""
    if column.time.pattern is not None:
        return times(column.time.pattern)
    if column.time.epoch is not None:
        return moments(column.time.epoch)
    if column.type in NUMBERS:
        minimum, maximum = column.between or (0, 0.9 if column.type in ("DECIMAL(3,3)", "DECIMAL(38,38)") else 100)
        integers = (
            st.integers(ceil(minimum), floor(maximum)).map(str)
            if floor(maximum) >= ceil(minimum)
            else st.just(str(maximum))
        )
        if column.type in ("INT", "BIGINT"):
            return integers
        floats = st.floats(float(minimum), float(maximum))
        return integers | floats.map(repr) | floats.map(lambda number: repr(round(number, 2)))
    return st.sampled_from(["true", "false"] if column.type == "BOOLEAN" else ['"x"', '"é\\n"', '""', '"\\""'])


def odd_text(column: Column) -> st.SearchStrategy[str]:
    """Values that the column may reject."""
    if column.time.pattern is not None:
        return st.sampled_from([*TIME_TEXTS, *ODD_VALUES])
    if column.time.epoch is not None:
        return numbers() | moments(column.time.epoch) | st.sampled_from([*TIME_TEXTS, *ODD_VALUES])
    return numbers() if column.type in NUMBERS else st.sampled_from([*ODD_VALUES, *EDGES])


@st.composite
def objects(draw: st.DrawFn, declared_columns: list[Column], is_valid: bool) -> bytes:
    pairs = []
    for column in {column.field.place.names: column for column in declared_columns}.values():
        if is_valid or draw(st.integers(0, 19)):
            strategy = right_text(column) if is_valid or draw(st.booleans()) else odd_text(column)
            pairs.append(_outermost(column.field.place.names, draw(strategy)))
    if not draw(st.integers(0, 4)):
        name = draw(st.sampled_from([*SOURCES, "other", ""]))
        pairs.append((name, draw(st.sampled_from(ODD_VALUES) | numbers())))
    quoted_pairs = [(_name(name, draw(st.integers(0, 9))), value) for name, value in pairs]
    members = (f"{draw(SPACE)}{name}{draw(SPACE)}:{draw(SPACE)}{value}" for name, value in quoted_pairs)
    return f"{draw(SPACE)}{{{','.join(members)}{draw(SPACE)}}}{draw(SPACE)}".encode()


def _outermost(names: tuple[str, ...], value: str) -> tuple[str, str]:
    """Return the outermost field of a nested value, with its inner objects as JSON."""
    for name in reversed(names[1:]):
        value = f"{{{_name(name, 1)}:{value}}}"
    return names[0], value


def _name(name: str, chance: int) -> str:
    """Return the name of a field in JSON, sometimes with escaped letters."""
    escaped_name = "".join(f"\\u{ord(letter):04x}" if letter in '"\\' or not chance else letter for letter in name)
    return f'"{escaped_name}"'


@st.composite
def values(draw: st.DrawFn, declared_columns: list[Column]) -> bytes | None:
    is_valid = draw(st.booleans())
    record = draw(objects(declared_columns, is_valid))
    if is_valid:
        return record
    position = draw(st.integers(0, len(record)))
    depth = draw(st.sampled_from([1, 40, 60, 200, 3000]))
    spoiled_records = {
        0: record[:position],
        1: record + draw(st.sampled_from([b"x", b"}", b"{}", b"\x00", b",", b"1"])),
        2: record[:position] + draw(st.sampled_from(ODD_BYTES)) + record[position:],
        3: draw(st.sampled_from(WHOLE_RECORDS)),
        4: b"\xef\xbb\xbf" + record,
        5: None,
        6: b'{"other":' + b"[" * depth + b"]" * depth + b"," + record.lstrip()[1:],
    }
    return spoiled_records.get(draw(st.integers(0, 14)), record)


@st.composite
def batches(draw: st.DrawFn) -> WrittenBatch:
    names = [f"c{nth}" for nth in range(draw(st.integers(1, 5)))]
    declared_columns = [draw(columns(name)) for name in names]
    time_columns = [column.name for column in declared_columns if column.time.pattern or column.time.epoch]
    late_rule = None
    if draw(st.booleans()) and time_columns:
        hours = draw(st.sampled_from([0, 1, 24 * 365 * 50]))
        late_rule = Late(time_columns[0], timedelta(hours=hours), "reject" if draw(st.booleans()) else "accept").rule
    records = draw(st.lists(values(declared_columns), min_size=1, max_size=6))
    broker_time = st.none() | st.integers(0, 2 * 10**15) | st.sampled_from([0, 2**62, -(2**63), 2**63 - 1])
    broker_times = [draw(broker_time) for _ in records]
    return WrittenBatch(records, broker_times, Rules(tuple(column.field for column in declared_columns), late_rule))
