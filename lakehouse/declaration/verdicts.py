"""Records → verdicts, many at once: the plain ones by the quick path where there is one, the rest by the strict one.

Both give the same rows; which of them decoded a record cannot be told from what became of it. Pure: it runs on the
driver and, shipped by value, on Spark's executors.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa

from lakehouse.declaration.arrow import arrow_type
from lakehouse.declaration.fields import Field, Rejection
from lakehouse.declaration.framing import Parse
from lakehouse.declaration.names import NULL_SAID
from lakehouse.declaration.others import others_in
from lakehouse.declaration.parts import TIME
from lakehouse.declaration.records import parse
from lakehouse.declaration.times import Lateness, judge_late
from lakehouse.declaration.values import NOTHING, convert, says_null

Beside = Mapping[str, pa.Array]
"""Parts of records beside their values, from which fields take theirs: binary, the newest header of a name."""
Quick = Callable[[pa.Array, pa.Array | None, "Rules", Beside], Any]
"""``lakehouse.declaration.quick.decode_plain``, which not every machine can import."""


_AT_ONCE, _WIDE = 128 * 1024, 20  # bytes of values; fewer of structs with more fields
_MOST_AT_ONCE = 1024 * 1024  # where no column takes what holds others


class Rules(NamedTuple):
    """What decides about a record: a rule for each field, when it is late, and what parses it; ``None``: JSON."""

    fields: tuple[Field, ...]
    late: Lateness | None
    parse: Parse | None = None

    @property
    def null_erases(self) -> tuple[Field, ...]:
        """The fields of which it matters whether a record says null, or nothing."""
        return tuple(field for field in self.fields if field.null_erases)


class Judged(NamedTuple):
    """What became of a record: its values, reason and detail where it may not enter, and whether it is late.

    ``parsed`` is the object its value holds, ``None`` where it holds none.
    """

    parsed: dict[str, Any] | None
    row: dict[str, Any]
    reason: str | None
    detail: str | None
    late: bool


class Decoded(NamedTuple):
    """One verdict for each record, and how many of them have which field that no column takes."""

    verdicts: pa.StructArray
    others: Counter[str]


def sliced(parts: tuple[pa.Array, ...], rules: Rules) -> Iterator[tuple[pa.Array, ...]]:
    """Records by so many bytes of their values, where few bytes may become many values: those that hold others.

    Of a format that we parse ourselves, all that a record holds is made, whatever the columns take.
    """
    size, rows = parts[0].nbytes, len(parts[0])
    widest = max((_widest(field) for field in rules.fields if field.inner), default=0)
    at_once = _AT_ONCE * _WIDE // max(_WIDE, widest) if widest else _MOST_AT_ONCE
    cut = (widest or rules.parse) and size > at_once
    step = max(1, rows * at_once // size) if cut else max(1, rows)
    return (tuple(part[at : at + step] for part in parts) for at in range(0, max(1, rows), step))


def _widest(field: Field) -> int:
    """How many plain values the widest of the structs in a field has room for."""
    return max(field.leaves, *(_widest(each) for each in field.inner)) if field.inner else 1


def decode_values(
    values: pa.Array, arrived: pa.Array | None, rules: Rules, quick: Quick | None, beside: Beside = NOTHING
) -> Decoded:
    """Decode records; ``arrived`` are their broker times in microseconds since 1970, UTC, where they are asked for.

    A verdict is: ``_reason`` and ``_detail`` (NULL where the record may enter), ``_late``, and a value for
    each field (NULL where it may not), and of fields whose null erases, whether the record says it.
    """
    if quick is None or not len(values):
        return _strictly(values, arrived, rules, beside)
    plain = quick(values, arrived, rules, beside)
    none = pa.nulls(len(values), pa.string())
    decoded = _verdicts([none, none, plain.late, *plain.columns], rules)
    others = others_in(plain.objects, rules.fields)
    if not plain.doubtful:
        return Decoded(decoded, others)
    doubtful = pa.array(plain.doubtful, pa.int64())
    parts = {part: told.take(doubtful) for part, told in beside.items()}
    strict = _strictly(values.take(doubtful), None if arrived is None else arrived.take(doubtful), rules, parts)
    places = list(range(len(values)))
    for nth, row in enumerate(plain.doubtful):
        places[row] = len(values) + nth
    verdicts = pa.concat_arrays([decoded, strict.verdicts]).take(pa.array(places, pa.int64()))
    return Decoded(verdicts, others + strict.others)


def _strictly(values: pa.Array, arrived: pa.Array | None, rules: Rules, beside: Beside) -> Decoded:
    times = [None] * len(values) if arrived is None else arrived.to_pylist()
    told = zip(*(part.to_pylist() for part in beside.values()), strict=True) if beside else repeat((), len(values))
    parts = (dict(zip(beside, each, strict=True)) for each in told)
    records = zip(values.to_pylist(), times, parts, strict=True)
    judged = [judge(value, time, rules, part) for value, time, part in records]
    columns = [
        pa.array([each.reason for each in judged], pa.string()),
        pa.array([each.detail for each in judged], pa.string()),
        pa.array([each.late for each in judged], pa.bool_()),
    ]
    for field in rules.fields:
        columns.append(pa.array([each.row.get(field.name) for each in judged], arrow_type(field.type)))
    for field in rules.null_erases:
        said = [bool(each.row) and says_null(each.parsed or {}, field) for each in judged]
        columns.append(pa.array(said, pa.bool_()))
    objects = [each.parsed for each in judged if each.parsed is not None]
    return Decoded(_verdicts(columns, rules), others_in(objects, rules.fields))


def judge(
    value: bytes | None, arrived: int | None, rules: Rules, beside: Mapping[str, bytes | None] = NOTHING
) -> Judged:
    """Decide one record strictly."""
    late = rules.late
    parsed: dict[str, Any] | None = None
    try:
        parsed = (rules.parse or parse)(value)
        row = convert(parsed, rules.fields, {**beside, TIME: arrived})
        is_late = late is not None and arrived is not None and judge_late(row, arrived, late)
        return Judged(parsed, row, None, None, is_late)
    except Rejection as rejection:
        return Judged(parsed, {}, rejection.reason, rejection.detail, rejection.reason == "late")


def _verdicts(columns: list[pa.Array], rules: Rules) -> pa.StructArray:
    names = [*(field.name for field in rules.fields), *(f"{NULL_SAID}{field.name}" for field in rules.null_erases)]
    return pa.StructArray.from_arrays(columns, ["_reason", "_detail", "_late", *names])
