"""A declaration proposed from records: what they tell of their fields, and what a person has to decide."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from lakehouse.declaration.inference.proposed_key import are_like_times, is_id, proposed_key, value_at
from lakehouse.declaration.inference.proposed_kinds import seen_kinds
from lakehouse.declaration.inference.proposed_types import are_keys, fits, kind_of, left_out, type_of
from lakehouse.declaration.names import IN_FEED, is_name
from lakehouse.declaration.partitions import Month
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.fields import Epoch, Rejection
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.formats.format import NO_SCHEMAS, Path, SchemaField, Schemas
from lakehouse.decoding.times import EPOCHS

_SINCE_1970 = re.compile(r"(.*_)?(time|timestamp|ts|at|date|ms|millis|epoch)")
_MOST_FIELDS = 1_000  # more are keys of a map, written as fields
_FEW = 20  # fields that are named, each by its whole path
_MOST_LEVELS = 5  # of objects within objects
PLAIN = Json()
_SEVERAL_TYPES = (
    "Records of several types were seen, {}. Of one key the newer would overwrite the other with NULLs, so each record"
    " is a row, in a log table: to merge them by a key, have each type in a topic of its own."
)
_OUR_DAYS = 10**9, 4 * 10**9  # seconds since 1970: from 2001 to 2096


@dataclass(frozen=True)
class Proposal:
    """Columns and a key that fit every record that can be read, and what records cannot tell; no key: a log table.

    ``month_of`` is a time in the key by whose month the table may be parted. ``unread`` are records that cannot be read
    as ``form`` has them, as those that are no JSON objects, among ``records``; ``refusal`` is why most of them.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    month_of: str | None
    doubts: tuple[str, ...]
    records: int
    unread: int
    refusal: str
    form: Format


def propose(values: Iterable[bytes | None], form: Format = PLAIN, schemas: Schemas = NO_SCHEMAS) -> Proposal:
    """Propose a declaration for the values of some records; pure, and the same for the same records.

    If the format's ``schemas`` give types, these are the types, and not what the records happen to hold.
    """
    held = list(values)
    objects, refusals = _read(held, form, schemas)
    doubts: list[str] = []
    described = _described(objects, form, schemas)
    paths = list(described if described is not None else _paths(objects))[:_MOST_FIELDS]
    if len(paths) == _MOST_FIELDS:
        doubts.append(f"Only the first {_MOST_FIELDS:,} fields were looked at.")
    columns = [each for path in paths if (each := _column(path, objects, doubts, (described or {}).get(path)))]
    for name, often in Counter(column.name for column in columns).items():
        if often > 1:
            sources = ", ".join(repr(column.field.source) for column in columns if column.name == name)
            doubts.append(f"Fields {sources} would each be column {name}: only the first is declared, name the others.")
    columns = list({column.name: column for column in reversed(columns)}.values())[::-1]
    kinds = _kinds(columns, objects, form, schemas)
    key = () if kinds else proposed_key(columns, objects, doubts)
    doubts += [_SEVERAL_TYPES.format(kinds)] if kinds else []
    columns = [_as_schemas_allow(column, key, described or {}, doubts) for column in columns]
    if any(column.required for column in columns) and objects:
        doubts.append("Required is what every one of these records has: drop required=True where one may come without.")
    doubts += _doubts_of_numbers(columns, typed=described is not None)
    taken = {column.name for column in columns}
    times = [column.name for column in columns if column.name in key and column.type == "TIMESTAMP"]
    times = [name for name in times if Month(name).name not in taken]
    month = times[0] if times else None
    (refusal, _), *_ = [*Counter(refusals).most_common(1), ("", 0)]
    return Proposal(tuple(columns), key, month, tuple(doubts), len(held), len(refusals), refusal, form)


def _doubts_of_numbers(columns: Sequence[Column], *, typed: bool) -> Iterator[str]:
    """What numbers may turn out to be that these records do not hold, or hold in another way."""
    whole = [column.name for column in columns if column.type == "BIGINT" and not is_id(column.name)]
    if whole and not typed:
        yield f"{', '.join(whole)}: whole numbers so far, and one with a fraction would be rejected."
    doubles = [column.name for column in columns if column.type == "DOUBLE"]
    if doubles:
        are = f"{', '.join(doubles)} {'is a DOUBLE' if len(doubles) == 1 else 'are DOUBLEs'}"
        yield f"{are}: where it is added up or is money, declare DECIMAL(precision,scale)."


def _kinds(columns: Sequence[Column], objects: Sequence[dict[str, Any]], form: Format, schemas: Schemas) -> str | None:
    """The types of records that were seen, in words; ``None`` where there is one."""
    names = sorted({form.schema_name(each) for each in schemas.known.values()} if form.typed and objects else ())
    by_schema = f"by their schemas: {', '.join(names)}"
    return by_schema if len(names) > 1 else seen_kinds(columns, objects, typed=form.typed)


def _read(values: Sequence[bytes | None], form: Format, schemas: Schemas) -> tuple[list[dict[str, Any]], list[str]]:
    """What can be read of the values, and why others cannot."""
    parser = form.parser(schemas)
    objects, refusals = [], []
    for value in values:
        try:
            objects.append(form.as_json(parser(value)))
        except Rejection as rejection:
            refusals.append(rejection.detail)
        except RecursionError:
            refusals.append("nested too deeply")
    return objects, refusals


def _described(objects: Sequence[dict[str, Any]], form: Format, schemas: Schemas) -> Mapping[Path, SchemaField] | None:
    """What schemas say of the fields of records, the newest schema first; ``None`` if they give no types."""
    newest_first = [schemas.known[each] for each in sorted(schemas.known, reverse=True)]
    return form.schema_fields(newest_first if objects else (), _MOST_FIELDS)


def _as_schemas_allow(
    column: Column, key: Sequence[str], described: Mapping[Path, SchemaField], doubts: list[str]
) -> Column:
    """The column, which is not required where a schema allows null, but for one of the key."""
    field = described.get(column.field.names)
    if not field or not field.optional or not column.required:
        return column
    if column.name in key:
        doubts.append(f"{column.name} is in the key, and may be null by its schema: such a record is rejected.")
        return column
    return replace(column, required=False)


def _paths(objects: Sequence[dict[str, Any]]) -> list[Path]:
    """The fields of all records, in the order in which they are first met; of very many, the first.

    What holds nothing but objects is described by the fields in these.
    """
    found: dict[Path, None] = dict.fromkeys((name,) for each in objects for name in each)
    for _ in range(_MOST_LEVELS - 1):
        found = dict.fromkeys(each for path in list(found)[:_MOST_FIELDS] for each in _within(path, objects))
    return list(found)[:_MOST_FIELDS]


def _within(path: Path, objects: Sequence[dict[str, Any]]) -> list[Path]:
    held = [value for each in objects if (value := value_at(each, path)) is not None]
    names = dict.fromkeys(name for value in held if isinstance(value, dict) for name in value)
    if not names or not all(isinstance(value, dict) for value in held):
        return [path]
    return [path] if are_keys(names, held) else [(*path, name) for name in names]


def _column(
    path: Path, objects: Sequence[dict[str, Any]], doubts: list[str], schema_field: SchemaField | None = None
) -> Column | None:
    held = [value for each in objects if (value := value_at(each, path)) is not None]
    source = ".".join(path)
    name = _named("_".join(path))
    if name is None or not (held or (schema_field and schema_field.type)):
        doubts.append(f"Field {source!r} is left out: {'no column can be named so' if held else 'it is always null'}.")
        return None
    found = _found(held, schema_field)
    held = _taken(held, found, source, doubts) if found and schema_field else held
    if found and not fits(held, *found):
        doubts.append(f"Field {source!r} is left out: it holds values beyond {found[0][:60]}.")
        return None
    if found is None:
        doubts.append(f"Field {source!r} is left out: {_why_untyped(held, schema_field)}.")
        return None
    type_, pattern = found
    unit = _unit(held) if held and type_ in ("INT", "BIGINT", "DOUBLE") and _SINCE_1970.fullmatch(name) else None
    if unit:
        doubts.append(f"{name} is taken for a time, in {unit} since 1970: declare BIGINT if it is a number.")
        type_ = "TIMESTAMP"
    if schema_field is None and type_.startswith("DECIMAL") and not type_.endswith(",0)"):
        doubts.append(f"{name} holds more digits than a DOUBLE: it is {type_}, and what is finer is rounded.")
    required = len(held) == len(objects)
    where = None if path == (name,) else path[0] if len(path) == 1 else path
    column = Column(name, type_, "", required=required, source=where, pattern=pattern, epoch=unit)
    if type_ == "STRING" and held and are_like_times(held):
        doubts.append(f"{name} looks like a time, and no one pattern reads it: declare how it is written, in UTC.")
    doubts += _doubts_within(held, column, source)
    return column


def _why_untyped(held: Sequence[Any], schema_field: SchemaField | None) -> str:
    if schema_field:
        return "no column is of the type that its schema has"
    kinds = " and ".join(sorted({kind_of(value) for value in held}))
    return f"it holds {kinds}{' of more digits than any type has' if kinds == 'numbers' else ''}"


def _doubts_within(held: Sequence[Any], column: Column, source: str) -> list[str]:
    """Return why fields within the values of a column are left out; nothing if none is."""
    missed = sorted(set().union(*(left_out(value, column.field) for value in held)))
    if not missed:
        return []
    why = "no type of at most 8 levels holds what they hold, or no field of a struct is named so"
    more = f", and {len(missed) - _FEW:,} more" if len(missed) > _FEW else ""
    return [f"Fields within {source!r} are left out, as {why}: {', '.join(map(repr, missed[:_FEW]))}{more}."]


def _taken(held: list[Any], found: tuple[str, str | None], source: str, doubts: list[str]) -> list[Any]:
    """The values that a type takes which a schema says; of others there is a doubt."""
    taken = [value for value in held if fits([value], *found)]
    if len(taken) < len(held):
        doubts.append(f"{source!r} holds values beyond {found[0][:60]} in some records, which would be rejected.")
    return taken


def _found(held: Sequence[Any], schema_field: SchemaField | None) -> tuple[str, str | None] | None:
    """The type of a column, and how it is written where it is a time: only texts tell more than their schema."""
    if schema_field is None or (held and schema_field.type == "STRING"):
        return type_of(held)
    return (schema_field.type, None) if schema_field.type else None


def _unit(held: Sequence[Decimal]) -> Epoch | None:
    """The unit in which numbers would be times of our days, exactly to the microsecond; ``None`` where in none."""
    for unit, places in EPOCHS.items():
        first, last = (day * 10 ** (6 - places) for day in _OUR_DAYS)
        if first <= min(held) and max(held) <= last:
            exact = all(value.scaleb(places) % 1 == 0 for value in held)  # else two that differ might be one time
            return unit if exact else None
    return None


def _named(source: str) -> str | None:
    """The name of a column for a field; ``None`` where none follows from it."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", source)
    name = source if is_name(source) else re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    if name in IN_FEED or name.endswith(("_before", "_after")):  # it may be of the key, whose columns stand in the feed
        name = f"{name}_"
    return name if is_name(name) else None
