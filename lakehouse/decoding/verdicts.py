"""Records → verdicts, many at once: the plain ones by the quick path where there is one, the rest by the strict one.

Both give the same rows; which of them decoded a record cannot be told from what became of it. Pure: it runs on the
driver and, shipped by value, on Spark's executors.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow.compute import binary_length, if_else

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import Parser
from lakehouse.decoding.formats.json_format import JsonParser
from lakehouse.decoding.memory import MOST_AT_ONCE, MOST_OF_ONE, room_by_byte, room_of_row
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.staged import DETAIL, LATE, NULL_SAID, REASON
from lakehouse.decoding.times import Lateness, judge_late
from lakehouse.decoding.unmapped_fields import others_in
from lakehouse.decoding.values import NOTHING, convert, says_null

Beside = Mapping[str, pa.Array]
"""Parts of records beside their values, from which fields take theirs: binary, the newest header of a name."""
Quick = Callable[[pa.Array, pa.Array | None, "Rules", Beside], Any]
"""``lakehouse.decoding.fast.plain_records.decode_plain``, which not every machine can import."""


_PIECE = 16 * 1000 * 1000  # bytes of parsed records that are held until fields that no column takes are counted


class Rules(NamedTuple):
    """What decides about a record: a rule for each field, when it is late, and what parses it."""

    fields: tuple[Field, ...]
    late: Lateness | None
    parser: Parser = JsonParser()

    @property
    def null_erases(self) -> tuple[Field, ...]:
        """The fields of which it matters whether a record says null, or nothing."""
        return tuple(field for field in self.fields if field.null_erases)


class Judged(NamedTuple):
    """What became of a record: its values, reason and detail where it may not enter, and whether it is late.

    ``parsed`` is the object its value holds, ``None`` where it holds none, and ``made`` the bytes of memory that it
    takes at most; ``nulls`` are, of each field whose null erases, whether the record says null.
    """

    parsed: dict[str, Any] | None
    row: dict[str, Any]
    reason: str | None
    detail: str | None
    late: bool
    nulls: tuple[bool, ...] = ()
    made: int = 0


class Decoded(NamedTuple):
    """One verdict for each record, and how many of them have which field that no column takes."""

    verdicts: pa.StructArray
    others: Counter[str]


def decode_slices(
    values: pa.Array, arrived: pa.Array | None, rules: Rules, quick: Quick | None, beside: Beside = NOTHING
) -> Iterator[Decoded]:
    """Decode records as ``decode_values``, so many of them together as take little memory."""
    for begin, end in sliced(values, rules):
        at, done = begin, False
        while not done:
            parts = {part: told[at:end] for part, told in beside.items()}
            decoded = decode_values(values[at:end], None if arrived is None else arrived[at:end], rules, quick, parts)
            at += len(decoded.verdicts)
            done = at >= end
            yield decoded


def sliced(values: pa.Array, rules: Rules) -> Iterator[tuple[int, int]]:
    """Where slices of records begin and end whose memory is bounded by the bytes of their values."""
    row, byte = _room(rules)

    def cut(begin: int, end: int) -> Iterator[tuple[int, int]]:
        count, middle = end - begin, (begin + end) // 2
        if count <= 1 or count * row + values[begin:end].nbytes * byte <= MOST_AT_ONCE:
            yield begin, end
        else:
            yield from cut(begin, middle)
            yield from cut(middle, end)

    return cut(0, len(values))


def room_in_columns(rules: Rules) -> tuple[int, int]:
    """Bytes of memory that a record takes in columns at most, and each byte of its value."""
    return room_of_row(rules.fields), room_by_byte(rules.fields, rules.parser.smallest_item)


def _room(rules: Rules) -> tuple[int, int]:
    """The same with what is made of a byte when it is parsed."""
    row, byte = room_in_columns(rules)
    return row, byte + rules.parser.memory_by_byte


def _too_much(values: pa.Array, rules: Rules) -> list[int]:
    """The rows of records that may take more memory than one may: the strict rules count what they take."""
    row, byte = _room(rules)
    if len(values) * row + values.nbytes * byte <= MOST_OF_ONE:
        return []
    sizes = binary_length(values).fill_null(0).to_pylist()
    return [at for at, size in enumerate(sizes) if row + size * byte > MOST_OF_ONE]


def decode_values(
    values: pa.Array, arrived: pa.Array | None, rules: Rules, quick: Quick | None, beside: Beside = NOTHING
) -> Decoded:
    """Decode records; ``arrived`` are their broker times in microseconds since 1970, UTC, where they are asked for.

    A verdict is: ``_reason`` and ``_detail`` (NULL where the record may enter), ``_late``, and a value for
    each field (NULL where it may not), and of fields whose null erases, whether the record says it. Where the first
    records become so much that more would not fit, the verdicts are theirs alone.
    """
    if quick is None or not len(values):
        return _strictly(values, arrived, rules, beside)
    plain = quick(_without(values, _too_much(values, rules)), arrived, rules, beside)
    size = len(plain.late)  # fewer than there are, where they became much
    none = pa.nulls(size, pa.string())
    decoded = _verdicts([none, none, plain.late, *plain.columns], rules)
    others, rows = others_in(plain.objects, rules.fields), plain.doubtful
    if not rows:
        return Decoded(decoded, others)
    del plain  # the strict rules make all of it again
    doubtful = pa.array(rows, pa.int64())
    parts = {part: told.take(doubtful) for part, told in beside.items()}
    strict = _strictly(values.take(doubtful), None if arrived is None else arrived.take(doubtful), rules, parts)
    places = list(range(size))
    for nth, row in enumerate(rows):
        places[row] = size + nth
    verdicts = pa.concat_arrays([decoded, strict.verdicts]).take(pa.array(places, pa.int64()))
    return Decoded(verdicts, others + strict.others)


def _without(values: pa.Array, rows: list[int]) -> pa.Array:
    """Values with nothing in some rows."""
    if not rows:
        return values
    left_out = set(rows)
    return if_else(pa.array(row not in left_out for row in range(len(values))), values, None)


def _strictly(values: pa.Array, arrived: pa.Array | None, rules: Rules, beside: Beside) -> Decoded:
    times = [None] * len(values) if arrived is None else arrived.to_pylist()
    told = zip(*(part.to_pylist() for part in beside.values()), strict=True) if beside else repeat((), len(values))
    parts = (dict(zip(beside, each, strict=True)) for each in told)
    records = zip(values.to_pylist(), times, parts, strict=True)
    judged, others = _judge_each(records, rules)
    columns = [
        pa.array([each.reason for each in judged], pa.string()),
        pa.array([each.detail for each in judged], pa.string()),
        pa.array([each.late for each in judged], pa.bool_()),
    ]
    for field in rules.fields:
        columns.append(pa.array([each.row.get(field.name) for each in judged], arrow_type(field.type)))
    columns += [pa.array([each.nulls[at] for each in judged], pa.bool_()) for at in range(len(rules.null_erases))]
    return Decoded(_verdicts(columns, rules), others)


def _judge_each(records: Iterable[tuple[Any, Any, Any]], rules: Rules) -> tuple[list[Judged], Counter[str]]:
    """Decide records one by one; what they were parsed into is not kept."""
    judged: list[Judged] = []
    room, erasing = room_in_columns(rules), rules.null_erases
    others, parsed, made = Counter[str](), list[dict[str, Any]](), 0
    for value, time, parts in records:
        each = judge(value, time, rules, parts, room)
        said = tuple([bool(each.row) and says_null(each.parsed or {}, field) for field in erasing])
        judged.append(Judged(None, *each[1:5], said))
        made += each.made
        if each.parsed is not None:
            parsed.append(each.parsed)
        if made > _PIECE:
            others += others_in(parsed, rules.fields)
            parsed, made = [], 0
    return judged, others + others_in(parsed, rules.fields)


def judge(
    value: bytes | None,
    arrived: int | None,
    rules: Rules,
    beside: Mapping[str, bytes | None] = NOTHING,
    room: tuple[int, int] | None = None,
) -> Judged:
    """Decide one record strictly; ``room`` is that of ``room_in_columns``, where it is known."""
    late, made = rules.late, 0
    parsed: dict[str, Any] | None = None
    try:
        parsed = rules.parser(value)
        made = rules.parser.memory_of(value)
        counted = made if may_be_too_large(made, value, room or room_in_columns(rules)) else None
        row = convert(parsed, rules.fields, {**beside, TIME: arrived}, counted)
        is_late = late is not None and arrived is not None and judge_late(row, arrived, late)
        return Judged(parsed, row, None, None, is_late, made=made)
    except Rejection as rejection:
        return Judged(parsed, {}, rejection.reason, rejection.detail, rejection.reason == "late", made=made)


def may_be_too_large(made: int, value: bytes | None, room: tuple[int, int]) -> bool:
    """Whether what a record takes in columns has to be counted, beside what was made when it was parsed."""
    row, byte = room
    return made + row + len(value or b"") * byte > MOST_OF_ONE


def _verdicts(columns: list[pa.Array], rules: Rules) -> pa.StructArray:
    names = [*(field.name for field in rules.fields), *(f"{NULL_SAID}{field.name}" for field in rules.null_erases)]
    return pa.StructArray.from_arrays(columns, [REASON, DETAIL, LATE, *names])
