"""Decoding of many records at once, of those that are plainly fine; every other one is left to ``records``.

A record is plain where it is sure, from what a native parser made of it, that the strict rules let it in, and with
which values. Whatever is doubtful is not plain, right or wrong: there is one set of rules, and this is not it.
Pure: it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from lakehouse.decoding.fast.plain_columns import Converted, Mask, convert, convert_any, read_parts
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.memory import MOST_AT_ONCE, MOST_OF_ONE
from lakehouse.decoding.record_parts import TIME, VALUE
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.values import NOTHING, is_null, says_null
from lakehouse.decoding.verdicts import Rules, may_be_too_large, room_in_columns

_QUOTE, _BACKSLASH = b'"\\'
_FAR = re.compile(rb"[eE][+-]?\d{9}")
_LEVELS = 50
_FAR_AWAY = 2**62


class Plain(NamedTuple):
    """What became of a batch: the columns, which records are late, and the rows of those that are not plain.

    Behind the columns of the fields stand those of which tell where a record says null, of fields whose null erases.
    ``objects`` are what the others were parsed into.
    """

    columns: list[pa.Array]
    late: pa.Array
    doubtful: list[int]
    objects: list[dict[str, Any]]


class _Written(NamedTuple):
    """Records as their bytes, one by one and as one array with the offsets at which each begins and ends."""

    each: list[bytes | None]
    whole: Any
    offsets: Any


def decode_plain(
    values: pa.Array,
    arrived: pa.Array | None,
    rules: Rules,
    beside: Mapping[str, pa.Array] = NOTHING,
) -> Plain:
    """Decode the plain ones of some records; ``arrived`` are broker times in microseconds since 1970, UTC.

    They are needed where records may be late, or a field is the broker's time; ``beside`` are the other parts of the
    records from which fields take their values.
    What the columns hold in the other rows means nothing.
    """
    fields, late = rules.fields, rules.late
    written = _written(values) if rules.parser.is_json else None
    objects, plain = _parse(written.each) if written else _parse_by(rules, values)
    arrived, beside = arrived[: len(objects)] if arrived is not None else None, _first(beside, len(objects))
    parts = {part: told.to_pylist() for part, told in {**beside, TIME: arrived}.items() if told is not None}
    nothing = [None] * len(objects)
    convert_value = convert if written else convert_any
    columns = [
        convert_value(_values(objects, field.names), field)
        if field.part == VALUE
        else convert(read_parts(parts.get(field.part, nothing), field), field)
        for field in fields
    ]
    for field, column in zip(fields, columns, strict=True):
        plain &= column.plain & _certain(objects, parts, field)
    if written:
        zeros = {row for column in columns for row in column.zeros}
        plain[[row for row in zeros if _FAR.search(written.each[row] or b"")]] = False
        plain &= _without_duplicates(written, objects, fields, columns)
    judged = np.zeros(len(plain), bool)
    if late is not None:
        event = columns[[field.name for field in fields].index(late.name)]
        judged, certain = _judge_late(event, arrived, late)
        plain &= certain & ~(judged & late.reject)
    doubtful = np.flatnonzero(~plain).tolist()
    sure = list(compress(objects, plain.tolist())) if doubtful else objects
    said = [_where_null_is_said(objects, field, plain) for field in fields if field.null_erases]
    return Plain([*(column.values for column in columns), *said], pa.array(judged), doubtful, sure)


def _certain(objects: list[Any], parts: Mapping[str, list[Any]], field: Field) -> Any:
    """Which objects tell a field by its present name, and by nothing that may be a null as declared."""
    certain = np.ones(len(objects), bool)
    if field.former:
        certain &= _by_its_name(objects, field)
    if field.nulls:
        found = _values(objects, field.names) if field.part == VALUE else parts.get(field.part, [None] * len(objects))
        certain &= np.fromiter((not _may_be_null(each, field) for each in found), bool, len(objects))
    return certain


def _written(values: pa.Array) -> _Written:
    large = values.cast(pa.large_binary())
    _, starts, data = large.buffers()
    offsets = np.frombuffer(starts, np.int64, len(large) + 1, large.offset * 8)
    whole = np.frombuffer(data, np.uint8)[: offsets[-1]] if data else np.empty(0, np.uint8)
    return _Written(large.to_pylist(), whole, offsets)


def _parse(written: list[bytes | None]) -> tuple[list[dict[str, Any]], Mask]:
    """The objects, empty ones in place of what is none, and which are objects."""
    try:
        parsed = list(map(orjson.loads, written))  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        parsed = list(map(_parse_one, written))
    if set(map(type, parsed)) == {dict}:
        return parsed, np.ones(len(parsed), bool)
    objects = [each if type(each) is dict else {} for each in parsed]
    return objects, np.fromiter((type(each) is dict for each in parsed), bool, len(parsed))


def _parse_by(rules: Rules, values: pa.Array) -> tuple[list[dict[str, Any]], Mask]:
    """The same by the parser of a format that no other parses as strictly: as many as take little memory."""
    room = room_in_columns(rules)
    little = MOST_OF_ONE - room[0] - values.nbytes * room[1]  # with it, no record takes too much, whatever its bytes
    parse_one, memory_of = rules.parser.__call__, rules.parser.memory_of  # looked up once
    parsed: list[dict[str, Any] | None] = []
    total = 0
    for written in values.to_pylist():
        try:
            one = parse_one(written)
        except Rejection:
            one = None
        made = memory_of(written)
        total += made
        if total > MOST_AT_ONCE and parsed:
            break
        if made > little and may_be_too_large(made, written, room):
            one = None
        parsed.append(one)
    return [each or {} for each in parsed], np.fromiter((each is not None for each in parsed), bool, len(parsed))


def _first(parts: Mapping[str, pa.Array], count: int) -> dict[str, pa.Array]:
    return {part: told[:count] for part, told in parts.items()}


def _parse_one(written: bytes | None) -> Any:
    try:
        return orjson.loads(written)  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        return None


def _values(objects: list[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    """The value in each object to which the names lead, one within the other; ``None`` where it has none."""
    first, *inner = names
    try:
        found = list(map(itemgetter(first), objects))
    except KeyError:
        found = [each.get(first) for each in objects]
    for name in inner:
        found = [each.get(name) if type(each) is dict else _unless_null(each) for each in found]
    return found


def _by_its_name(objects: list[dict[str, Any]], field: Field) -> Mask:
    """Where nothing stands under the names that a field had before, or something under those that it has."""
    told = zip(_values(objects, field.names), _values(objects, field.former), strict=True)
    return np.fromiter((now is not None or before is None for now, before in told), bool, len(objects))


def _where_null_is_said(objects: list[dict[str, Any]], field: Field, plain: Mask) -> pa.Array:
    """Which of the plain records say null for a field."""
    said = (
        fine and value is None and says_null(each, field)
        for each, value, fine in zip(objects, _values(objects, field.names), plain.tolist(), strict=True)
    )
    return pa.array(said, pa.bool_(), size=len(objects))


def _may_be_null(raw: Any, field: Field) -> bool:
    """Whether a value may be one of those that stand for null; what stands beside the value is bytes."""
    return raw is not None and (type(raw) is bytes or is_null(raw, field.nulls))


def _unless_null(outer: Any) -> Any:
    """What is within something that is no object: nothing where it is null, else what no column takes."""
    return None if outer is None else ()


def _without_duplicates(
    written: _Written, objects: list[dict[str, Any]], fields: tuple[Field, ...], columns: list[Converted]
) -> Mask:
    """Where as many texts are written as were parsed: of a name that stands twice the parser keeps one."""
    texts = np.zeros(len(objects), np.int64)
    for found in _declared_texts(fields, columns):
        texts += found
    # no object has fewer texts than declared ones: where all of them have as many in sum, each of them has
    held = written.whole[written.offsets[0] :]
    if not (held == _BACKSLASH).any() and np.count_nonzero(held == _QUOTE) == 2 * texts.sum():
        return np.ones(len(objects), bool)
    there = _texts_written(written)
    others = there != texts  # undeclared, or null, or twice
    texts[others] = [_texts_in(each) for each in compress(objects, others.tolist())]
    return np.asarray(there == texts)


def _declared_texts(fields: tuple[Field, ...], columns: list[Converted]) -> list[Mask]:
    """Where the names and the texts of declared fields were found: each stands in its record, as one text."""
    named: dict[tuple[str, ...], Mask] = {}
    values: dict[tuple[str, ...], Mask] = {}
    in_value = [each for each in zip(fields, columns, strict=True) if each[0].part == VALUE]
    for field, column in in_value:
        for depth in range(1, len(field.names) + 1):
            names = field.names[:depth]
            named[names] = named[names] | column.found if names in named else column.found
        if column.is_text:
            values[field.names] = column.found
    return [*named.values(), *values.values()]


def _texts_in(parsed: dict[str, Any]) -> int:
    """Count the texts, names among them; -1 where it is nested so deeply that the strict parser may refuse it."""
    count, level = 0, [parsed]
    for _ in range(_LEVELS):
        deeper: list[Any] = []
        for each in level:
            inside: Any = each
            if type(each) is dict:
                count += len(each)
                inside = each.values()
            kinds = list(map(type, inside))
            count += kinds.count(str)
            if dict in kinds or list in kinds:
                deeper += [value for value in inside if type(value) in (dict, list)]
        if not deeper:
            return count
        level = deeper
    return -1


def _texts_written(written: _Written) -> Any:
    """Count the texts that stand in valid JSON: each has two quotes, but for the escaped ones within."""
    quotes = _counts(written, _QUOTE)
    escaped = np.flatnonzero(_counts(written, _BACKSLASH))
    quotes[escaped] = [_unescaped_quotes(written.each[row] or b"") for row in escaped]
    return quotes // 2


def _unescaped_quotes(written: bytes) -> int:
    """Count the quotes that begin or end a text; as long as the record, whatever is in it."""
    return written.replace(rb"\\", b"").replace(rb"\"", b"").count(b'"')


def _counts(written: _Written, byte: int) -> Any:
    places = np.flatnonzero(written.whole == byte)
    return np.diff(np.searchsorted(places, written.offsets))


def _judge_late(event: Converted, arrived: pa.Array, rule: Lateness) -> tuple[Mask, Mask]:
    """Which are late, and where that is sure: a difference of times far away does not fit."""
    day = 86_400_000_000 if event.values.type == pa.date32() else 1
    happened = event.values.cast(pa.int32() if day > 1 else pa.int64()).fill_null(0).to_numpy().astype(np.int64) * day
    times = arrived.fill_null(0).to_numpy()
    known = event.present & arrived.is_valid().to_numpy(zero_copy_only=False)
    sure = (times > -_FAR_AWAY) & (times < _FAR_AWAY)
    limit = min(rule.after // timedelta(microseconds=1), _FAR_AWAY * 2 - 1)
    return known & (times - happened > limit), sure
