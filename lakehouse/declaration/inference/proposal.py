"""A declaration proposed from records: what follows from their fields, and what a person has to decide."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.declaration.delete_conditions import FieldIs, HeaderIs
from lakehouse.declaration.inference.open_telemetry import (
    LOGS_NOTE,
    ROWS_OF_LOGS,
    are_logs,
    columns_of_logs,
    with_attributes,
)
from lakehouse.declaration.inference.opened_fields import open_fields
from lakehouse.declaration.inference.proposed_forms import form_warning
from lakehouse.declaration.inference.proposed_key import are_like_times, is_id, proposed_key, value_at
from lakehouse.declaration.inference.proposed_kinds import seen_kinds
from lakehouse.declaration.inference.proposed_texts import read_texts
from lakehouse.declaration.inference.proposed_times import epoch_warning, named_epoch_unit, text_warnings
from lakehouse.declaration.inference.proposed_types import are_keys, fits, kind_of, omitted_fields, type_of
from lakehouse.declaration.inference.readable_records import read_objects
from lakehouse.declaration.names import column_name
from lakehouse.declaration.partitions import Month
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.formats.format import NO_SCHEMAS, Path, SchemaField, Schemas, WriterSchema

_MAX_FIELDS = 1_000  # more are keys of a map that is written as fields
_MAX_SHOWN = 20  # omitted fields, each by its whole path
_MAX_LEVELS = 5  # of nested objects
DEFAULT_FORMAT = Json()
_SEVERAL_TYPES = (
    "The records have several types, {}. With a common key, newer records would overwrite those of another type with"
    " NULLs. So the table is a log table, in which each record is a row. For a table per type, add for example"
    " --where type=order, or choose by the schema: where=SchemaIs([...])."
)
_HOLDS_JSON = "Field {!r} is a text that holds JSON. Its fields are read by their paths, like those of an object."
_NAMED_BRANCHES = (
    "Unions of several types: each branch is a field of its own, by the name of its type (named_branches=True). It is"
    " NULL in records of another branch. Columns that you do not need can be removed."
)
_ARRAY = (
    "{0} is an array of objects. For a row per object, write rows_from= with the path of {0}, declare the fields of an"
    " object as columns, and read a field around the array with source=ParentField(...)."
)
_NOT_FINITE = "Some records have NaN or Infinity, which {} reads as null. Remove not_finite to reject such records."


@dataclass(frozen=True)
class Proposal:
    """Columns and a key that fit every readable record, and what the records cannot show; no key means a log table.

    ``month_of`` is a time in the key whose month may partition the table. ``unread`` is how many of ``records`` the
    format ``form`` cannot read, for example because they are not JSON objects; ``refusal`` is the most common reason.
    ``origin`` is what else the proposal was made from; the options after it come from there.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    month_of: str | None
    warnings: tuple[str, ...]
    records: int
    unread: int
    refusal: str
    form: Format
    origin: str = ""
    version: str | None = None
    deletes: FieldIs | None = None
    truncates: FieldIs | None = None
    where: FieldIs | HeaderIs | None = None
    rows_from: tuple[str, ...] | None = None


def propose(
    values: Iterable[bytes | None],
    form: Format = DEFAULT_FORMAT,
    schemas: Schemas = NO_SCHEMAS,
    only: Callable[[str], bool] | None = None,
) -> Proposal:
    """Propose a declaration for the values of some records; pure and deterministic.

    If the format's ``schemas`` have types, the columns have these types, regardless of what the records contain.
    ``only`` selects the fields that become columns, by their outermost names. The key is then not proposed.
    """
    contents = list(values)
    has_named_branches = form.for_schemas(schemas) != form
    objects, refusals, form, are_arrays = read_objects(contents, form.for_schemas(schemas), schemas)
    if not (form.typed or form.is_text or are_arrays or only) and are_logs(objects):
        logs = Proposal(columns_of_logs(), (), None, (LOGS_NOTE,), len(contents), len(refusals), "", form)
        return replace(logs, rows_from=ROWS_OF_LOGS)
    objects = read_texts(objects) if form.is_text else objects
    warnings = [_NAMED_BRANCHES] if has_named_branches else []
    warnings += [_NOT_FINITE.format(form.declared_as)] if form.not_finite == "null" else []
    warnings += [] if form.typed else [_HOLDS_JSON.format(path) for path in open_fields(objects, form.json_options)]
    used_schemas = form.used_schemas(contents, schemas) if objects else ()
    schema_fields = form.schema_fields(used_schemas, _MAX_FIELDS)
    paths = list(schema_fields if schema_fields is not None else _field_paths(objects))[:_MAX_FIELDS]
    paths = [path for path in paths if only is None or only(path[0])]
    if len(paths) == _MAX_FIELDS:
        warnings.append(f"Only the first {_MAX_FIELDS:,} fields were examined.")
    proposed_columns = [_propose_column(path, objects, warnings, (schema_fields or {}).get(path)) for path in paths]
    untyped = objects if schema_fields is None and not form.typed else []
    proposed_columns = [
        column and with_attributes(column, _values_at(column.field.names, untyped)) for column in proposed_columns
    ]
    columns = _without_duplicates([column for column in proposed_columns if column], warnings)
    kinds = None if only else _record_kinds(columns, objects, form, used_schemas)
    key = () if kinds or only else proposed_key(columns, objects, warnings)
    warnings += [_SEVERAL_TYPES.format(kinds)] if kinds else []
    columns = [_allow_null(column, key, schema_fields or {}, warnings) for column in columns]
    if any(column.required for column in columns) and objects and not only:
        warnings.append(
            "Columns that all these records have are required. Remove required=True if a record may come without one."
        )
    warnings += (*_number_warnings(columns, is_typed=schema_fields is not None), *_array_warnings(columns))
    warnings += text_warnings([(column, _values_at(column.field.names, objects)) for column in columns])
    (refusal, _), *_ = [*Counter(refusals).most_common(1), ("", 0)]
    proposal = Proposal(
        tuple(columns), key, _month_of(columns, key), tuple(warnings), len(contents), len(refusals), refusal, form
    )
    return replace(proposal, rows_from=() if are_arrays else None)


def _month_of(columns: Sequence[Column], key: Sequence[str]) -> str | None:
    """A time in the key whose month may partition the table."""
    names = {column.name for column in columns}
    times = (column.name for column in columns if column.name in key and column.type == "TIMESTAMP")
    return next((name for name in times if Month(name).name not in names), None)


def _without_duplicates(columns: Sequence[Column], warnings: list[str]) -> list[Column]:
    """The first of the columns with each name; a warning names the fields of the others."""
    for name, count in Counter(column.name for column in columns).items():
        if count > 1:
            sources = ", ".join(repr(column.field.source) for column in columns if column.name == name)
            warnings.append(
                f"Fields {sources} would all be column {name}. Only the first is declared: name the others."
            )
    return list({column.name: column for column in reversed(columns)}.values())[::-1]


def _array_warnings(columns: Sequence[Column]) -> Iterator[str]:
    """How the first array of objects can become rows."""
    name = next((column.name for column in columns if column.type.startswith("ARRAY<STRUCT")), None)
    if name is not None:
        yield _ARRAY.format(name)


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
) -> str | None:
    """The types of the records, in words; ``None`` if there is only one."""
    names = sorted({form.schema_name(schema) for schema in schemas} if form.typed else ())
    by_schema = f"by their schemas: {', '.join(names)}"
    return by_schema if len(names) > 1 else seen_kinds(columns, objects, is_typed=form.typed)


def _allow_null(
    column: Column, key: Sequence[str], schema_fields: Mapping[Path, SchemaField], warnings: list[str]
) -> Column:
    """The column, not required if its schema allows null; a key column stays required."""
    field = schema_fields.get(column.field.names)
    if not field or not field.optional or not column.required:
        return column
    if column.name in key:
        warnings.append(f"{column.name} is in the key, but its schema allows null. A record with a null is rejected.")
        return column
    return replace(column, required=False)


def _field_paths(objects: Sequence[dict[str, Any]]) -> list[Path]:
    """The paths of the fields of all records, in the order of their first occurrence, up to the maximum.

    A field that contains only objects is replaced by the fields within them.
    """
    paths: dict[Path, None] = dict.fromkeys((name,) for content in objects for name in content)
    for _ in range(_MAX_LEVELS - 1):
        paths = dict.fromkeys(inner for path in list(paths)[:_MAX_FIELDS] for inner in _inner_paths(path, objects))
    return list(paths)[:_MAX_FIELDS]


def _inner_paths(path: Path, objects: Sequence[dict[str, Any]]) -> list[Path]:
    values = _values_at(path, objects)
    names = dict.fromkeys(name for value in values if isinstance(value, dict) for name in value)
    if not names or not all(isinstance(value, dict) for value in values):
        return [path]
    return [path] if are_keys(names, values) else [(*path, name) for name in names]


def _values_at(path: Path, objects: Sequence[dict[str, Any]]) -> list[Any]:
    return [value for content in objects if (value := value_at(content, path)) is not None]


def _propose_column(
    path: Path, objects: Sequence[dict[str, Any]], warnings: list[str], schema_field: SchemaField | None = None
) -> Column | None:
    values = _values_at(path, objects)
    source = ".".join(path)
    name = column_name("_".join(path))
    if name is None or not (values or (schema_field and schema_field.type)):
        reason = "its name cannot become the name of a column" if values else "it is always null"
        warnings.append(f"Field {source!r} is left out: {reason}.")
        return None
    column_type = _column_type(values, schema_field)
    values = _fitting_values(values, column_type, source, warnings) if column_type and schema_field else values
    if column_type and not fits(values, *column_type):
        warnings.append(f"Field {source!r} is left out: it has values that do not fit {column_type[0][:60]}.")
        return None
    if column_type is None:
        warnings.append(f"Field {source!r} is left out: {_why_untyped(values, schema_field)}.")
        return None
    type_, pattern = column_type
    unit = named_epoch_unit(name, values) if values and type_ in ("INT", "BIGINT", "DOUBLE") else None
    if unit:
        warnings.append(epoch_warning(name, unit))
        type_ = "TIMESTAMP"
    if schema_field is None and type_.startswith("DECIMAL") and not type_.endswith(",0)"):
        warnings.append(f"{name} has more digits than a DOUBLE, so it is {type_}. Further decimal places are rounded.")
    is_required = len(values) == len(objects)
    column_source = None if path == (name,) else path[0] if len(path) == 1 else path
    column = Column(name, type_, "", required=is_required, source=column_source, pattern=pattern, epoch=unit)
    is_optional = schema_field is not None and schema_field.optional
    form_note = form_warning(replace(column, required=is_required and not is_optional), values)
    if form_note:
        warnings.append(form_note)
    elif type_ == "STRING" and values and are_like_times(values):
        warnings.append(f"{name} looks like a time, but no single pattern reads it. Declare its pattern.")
    warnings += _omission_warnings(values, column, source)
    return column


def _why_untyped(values: Sequence[Any], schema_field: SchemaField | None) -> str:
    if schema_field:
        return "no column can have the type of its schema"
    kinds = " and ".join(sorted({kind_of(value) for value in values}))
    return f"it contains {kinds}{' with more digits than any type has' if kinds == 'numbers' else ''}"


def _omission_warnings(values: Sequence[Any], column: Column, source: str) -> list[str]:
    """A warning about fields within the values of a column that are left out; empty if there are none."""
    omitted_paths = sorted(set().union(*(omitted_fields(value, column.field) for value in values)))
    if not omitted_paths:
        return []
    reason = "because no type with at most 8 levels fits their values, or their names are not valid in a struct"
    shown_text = ", ".join(map(repr, omitted_paths[:_MAX_SHOWN]))
    omitted_text = f", and {len(omitted_paths) - _MAX_SHOWN:,} more" if len(omitted_paths) > _MAX_SHOWN else ""
    return [f"Fields within {source!r} are left out, {reason}: {shown_text}{omitted_text}."]


def _fitting_values(
    values: list[Any], column_type: tuple[str, str | None], source: str, warnings: list[str]
) -> list[Any]:
    """The values that fit the type of a schema; a warning is added if others do not."""
    fitting_values = [value for value in values if fits([value], *column_type)]
    if len(fitting_values) < len(values):
        warnings.append(
            f"{source!r} has values that do not fit {column_type[0][:60]} in some records: they are rejected."
        )
    return fitting_values


def _column_type(values: Sequence[Any], schema_field: SchemaField | None) -> tuple[str, str | None] | None:
    """The type of a column, and the pattern of a time: only strings can have another type than in their schema."""
    if schema_field is None or (values and schema_field.type == "STRING"):
        return type_of(values)
    return (schema_field.type, None) if schema_field.type else None
