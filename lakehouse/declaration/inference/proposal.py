"""A declaration proposed from records: what follows from their fields, and what a person has to decide."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_up
from itertools import islice
from typing import Any

from lakehouse.declaration.columns import Column, Time
from lakehouse.declaration.conditions import FieldIs, HeaderIs
from lakehouse.declaration.inference.proposed_columns import propose_column
from lakehouse.declaration.inference.proposed_key import is_event, is_event_time, is_id, proposed_key
from lakehouse.declaration.inference.proposed_types import column_line, source_text, text_warnings
from lakehouse.declaration.inference.readable_records import encoding_warnings, most_common_reasons, read_objects
from lakehouse.declaration.inference.record_fields import (
    MAX_FIELDS,
    field_paths,
    open_fields,
    read_texts,
    seen_kinds,
    values_at,
)
from lakehouse.declaration.names import ARRAY_NAME, array_step, json_names
from lakehouse.declaration.vocabulary import Month
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.formats.debezium.position import MONGODB, is_of_mongodb
from lakehouse.decoding.formats.format import NO_SCHEMAS, Path, SchemaField, Schemas, WriterSchema, quote
from lakehouse.decoding.record_parts import RecordKey
from lakehouse.decoding.time_texts import ISO8601

DEFAULT_FORMAT = Json()
_SEVERAL_TYPES = (
    "The records have several types, {}. With a common key, newer records would overwrite those of another type with"
    " NULLs. So the table is a log table, in which each record is a row. For a table per type, {}."
)
_BY_FIELD, _BY_SCHEMA = "add for example {} to the command", "choose by the schema: where=SchemaIs([{}])"
_BY_FIELDS = "write where= with a field or a header in which they differ"
_NAMED_BRANCHES = (
    "Unions of several types: each branch is a field of its own, by the name of its type (named_branches=True). It is"
    " NULL in records of another branch. Columns that you do not need can be removed."
)
_ARRAY = (
    "{} is an array of objects. For a row per object, write rows_from={}, declare the fields of an object as columns,"
    " and read a field around the array with source=ParentField(...). If its objects are of several kinds, write"
    " Explode(..., where=FieldExists(...))."
)
_ORDER = "If {0} says which record of a key is newer, declare version='{0}'; if it may be equal, Version(['{0}', ...])."
_MAX_ARRAYS = 5
_MIXED = (
    "Some records are arrays of objects, or texts that hold JSON, and others are an object. With single_object=True"
    " of Explode, each object is a row."
)
_REQUIRED = "Columns that all these records have are required. Remove required=True if a record may come without one."
_NOT_FINITE = "Some records have NaN or Infinity, which {} reads as null. Remove not_finite to reject such records."


@dataclass(frozen=True)
class Proposal:
    """Columns and a key that fit every readable record, and what the records cannot show; no key means a log table.

    ``month_of`` is a time in the key whose month may partition the table. ``unread`` is how many of ``records`` the
    format ``form`` cannot read, for example because they are not JSON objects; ``refusal`` has the most common reasons.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    month_of: str | None
    warnings: tuple[str, ...]
    records: int
    unread: int
    refusal: str
    form: Format
    where: FieldIs | HeaderIs | None = None
    rows_from: tuple[str, ...] | None = None
    single_object: bool = False


def propose(
    values: Iterable[bytes | None],
    form: Format = DEFAULT_FORMAT,
    schemas: Schemas = NO_SCHEMAS,
    keys: Iterable[bytes | None] = (),
) -> Proposal:
    """Propose a declaration for the values of some records; pure and deterministic.

    If the format's ``schemas`` have types, the columns have these types, regardless of what the records contain. The id
    of a document is in the ``keys`` of the records.
    """
    contents = list(values)
    warnings = [_NAMED_BRANCHES] if form.for_schemas(schemas) != form else []
    objects, refusals, form, are_arrays, is_mixed = read_objects(contents, form.for_schemas(schemas), schemas)
    refusal = most_common_reasons(refusals)
    proposal = Proposal(
        *((), (), None, (), len(contents), len(refusals), refusal, form),
        rows_from=() if are_arrays else None,
        single_object=is_mixed,
    )
    warnings += [_MIXED] if is_mixed else []
    warnings += [f"{MONGODB[0].upper()}{MONGODB[1:]}."] if any(map(is_of_mongodb, objects)) else []
    objects = read_texts(objects) if form.is_text else objects
    objects = [_without_id(document) for document in objects] if form.documents else objects
    warnings += [_NOT_FINITE.format(form.declared_as)] if form.not_finite == "null" else []
    warnings += encoding_warnings(contents, form)
    warnings += () if form.typed else open_fields(objects, form.json_options)
    used_schemas = form.used_schemas(contents, schemas) if objects else ()
    schema_fields = form.schema_fields(used_schemas, MAX_FIELDS)
    paths = list(schema_fields if schema_fields is not None else field_paths(objects))[:MAX_FIELDS]
    paths = _without_array_steps(paths, form, warnings)
    columns = _with_event_time(_propose_columns(paths, objects, schema_fields or {}, warnings), objects)
    kinds = _record_kinds(columns, objects, form, used_schemas)
    key = () if kinds or form.documents else proposed_key(columns, objects, warnings)
    warnings += [_SEVERAL_TYPES.format(*kinds)] if kinds else []
    columns = [_allow_null(column, key, schema_fields or {}, warnings) for column in columns]
    columns = [replace(column, required=False) for column in columns] if form.documents else columns
    warnings += [_REQUIRED] if objects and any(column.required for column in columns) else []
    warnings += (*_number_warnings(columns, is_typed=schema_fields is not None), *_array_warnings(columns))
    warnings += text_warnings([(column, values_at(column.field.place.names, objects)) for column in columns])
    warnings += _order_warnings(columns, key)
    columns, key = _with_document_id(columns, keys) if form.documents else (columns, key)
    month = _month_of(columns, key)
    return replace(proposal, columns=tuple(columns), key=key, month_of=month, warnings=tuple(warnings))


def _without_id(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its id, which the key of its record has."""
    return {name: value for name, value in document.items() if name != "_id"}


def _with_document_id(columns: Sequence[Column], keys: Iterable[bytes | None]) -> tuple[list[Column], tuple[str, ...]]:
    """The columns with the id of a document, which the key of each record has, also that of a delete; and the key."""
    has_schema = any(b'"payload"' in (key or b"") for key in keys)
    name = "document_key" if any(column.name == "id" for column in columns) else "id"
    source = RecordKey("json", ("payload", "id") if has_schema else "id")
    return [Column(name, "STRING", "", source=source, required=True), *columns], (name,)


def _order_warnings(columns: Sequence[Column], key: Sequence[str]) -> Iterator[str]:
    """How the time of events can decide which record of a key is newer."""
    times = [column.name for column in columns if column.type == "TIMESTAMP" and column.name not in key]
    if key and times:
        yield _ORDER.format(times[0])


def _without_array_steps(paths: Sequence[Path], form: Format, warnings: list[str]) -> list[Path]:
    """The paths without fields whose names look like a place in an array, which no declaration can name."""
    odd_paths = [path for path in paths if array_step(json_names(path, form))]
    warnings += [ARRAY_NAME.format(".".join(path)) for path in odd_paths]
    return [path for path in paths if path not in odd_paths]


def _with_event_time(columns: list[Column], objects: Sequence[dict[str, Any]]) -> list[Column]:
    """The columns, with the time of events as their standard has it: also with a fraction or an offset."""
    if not objects or not all(map(is_event, objects)):
        return columns
    return [replace(column, written=Time(ISO8601)) if is_event_time(column) else column for column in columns]


def _propose_columns(
    paths: Sequence[Path],
    objects: Sequence[dict[str, Any]],
    schema_fields: Mapping[Path, SchemaField],
    warnings: list[str],
) -> list[Column]:
    """The columns for the fields at some paths; ``schema_fields`` are those of schemas that have types."""
    if len(paths) == MAX_FIELDS:
        warnings.append(f"Only the first {MAX_FIELDS:,} fields were examined.")
    proposed_columns = [propose_column(path, objects, warnings, schema_fields.get(path)) for path in paths]
    return _without_duplicates([column for column in proposed_columns if column], warnings)


def _month_of(columns: Sequence[Column], key: Sequence[str]) -> str | None:
    """A time in the key whose month may partition the table."""
    names = {column.name for column in columns}
    times = (column.name for column in columns if column.name in key and column.type == "TIMESTAMP")
    return next((name for name in times if Month(name).name not in names), None)


def _without_duplicates(columns: Sequence[Column], warnings: list[str]) -> list[Column]:
    """One of the columns with each name, if possible that of the field with this name; warnings name the others."""
    taken_names = {column.name for column in columns}
    for name, count in Counter(column.name for column in columns).items():
        if count > 1:
            first, *other_columns = sorted(
                (column for column in columns if column.name == name),
                key=lambda column: column.field.place.names != (name,),
            )
            sources = ", ".join(repr(column.field.source) for column in (first, *other_columns))
            free_names = (free for number in count_up(2) if (free := f"{name}_{number}") not in taken_names)
            renamed = [
                replace(column, name=next(free_names), source=column.source or column.field.place.names)
                for column in other_columns
            ]
            taken_names.update(column.name for column in renamed)
            warnings.append(
                f"Fields {sources} would all be column {name}. Only the first is declared. For the others, write"
                f" {', '.join(map(column_line, renamed))}."
            )
            columns = [column for column in columns if column.name != name or column is first]
    return [*columns]


def _array_warnings(columns: Sequence[Column]) -> Iterator[str]:
    """How the first array of objects, or an array within it, can become rows."""
    array = next((column for column in columns if column.type.startswith("ARRAY<STRUCT")), None)
    if array is not None:
        paths = islice(_arrays_in(array.field, array.field.place.names), _MAX_ARRAYS)
        yield _ARRAY.format(array.name, ", or ".join(map(source_text, paths)))


def _arrays_in(field: Field, path: Path) -> Iterator[Path]:
    """The paths of arrays of objects: of the field, and of the fields of its objects."""
    if field.type.startswith("ARRAY<STRUCT"):
        yield path
        for inner in field.inner[0].inner:
            yield from _arrays_in(inner, (*path[:-1], f"{path[-1]}[]", inner.name))


def _number_warnings(columns: Sequence[Column], *, is_typed: bool) -> Iterator[str]:
    """What the numbers of further records may be, unlike those of these records."""
    integers = [column.name for column in columns if column.type == "BIGINT" and not is_id(column.name)]
    if integers and not is_typed:
        yield f"{', '.join(integers)}: only integers so far. A number with a fraction would be rejected."
    doubles = [column.name for column in columns if column.type == "DOUBLE"]
    if doubles:
        subject = f"{', '.join(doubles)} {'is a DOUBLE' if len(doubles) == 1 else 'are DOUBLEs'}"
        yield f"{subject}: for amounts of money or values to sum, declare DECIMAL(precision,scale)."


def _record_kinds(
    columns: Sequence[Column], objects: Sequence[dict[str, Any]], form: Format, schemas: Iterable[WriterSchema]
) -> tuple[str, str] | None:
    """The types of the records in words, and how to choose one of them; ``None`` if there is only one."""
    names = sorted({form.schema_name(schema) for schema in schemas} if form.typed else ())
    if len(names) > 1:
        return f"by their schemas: {', '.join(names)}", _BY_SCHEMA.format(quote(names[0]))
    kinds = seen_kinds(columns, objects, is_typed=form.typed)
    return kinds and (kinds.text, _BY_FIELD.format(kinds.condition) if kinds.condition else _BY_FIELDS)


def _allow_null(
    column: Column, key: Sequence[str], schema_fields: Mapping[Path, SchemaField], warnings: list[str]
) -> Column:
    """The column, not required if its schema allows null; a key column stays required."""
    field = schema_fields.get(column.field.place.names)
    if not field or not field.optional or not column.required:
        return column
    if column.name in key:
        warnings.append(f"{column.name} is in the key, but its schema allows null. A record with a null is rejected.")
        return column
    return replace(column, required=False)
