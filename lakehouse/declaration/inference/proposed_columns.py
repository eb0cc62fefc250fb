"""The column that is proposed for a field, and why a field is left out."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.declaration.columns import Column, Time
from lakehouse.declaration.inference.proposed_forms import (
    encoded_form,
    find_form,
    form_advice,
    is_identifier,
    least_common,
)
from lakehouse.declaration.inference.proposed_key import are_like_times
from lakehouse.declaration.inference.proposed_types import (
    column_line,
    epoch_warning,
    fits,
    kind_of,
    named_epoch_unit,
    omitted_fields,
    type_of,
    with_type,
)
from lakehouse.declaration.inference.record_fields import values_at
from lakehouse.declaration.names import column_name
from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.formats.format import Path, SchemaField, quote
from lakehouse.decoding.written_forms import Written

_HALF = re.compile(r"[\ud800-\udfff]")
_MAX_SHOWN = 20  # omitted fields, each by its whole path
_NO_TYPE = (
    "no type with at most 8 levels fits their values, or their names differ from others only by case or are not valid"
    " in a struct"
)
_VERSION = re.compile(r"(.*_)?version(_.*)?")
_DATED = "{} has dates. A version may get another form, so it is STRING. To store dates, write {}."
_MAP = "MAP<STRING, "
_FREE_NAMES = "{}: names that look like data rather than fields, so it is a MAP. For a column of one name, write {}."


def propose_column(
    path: Path, objects: Sequence[dict[str, Any]], warnings: list[str], schema_field: SchemaField | None = None
) -> Column | None:
    """The column for the field at a path; ``None``, with a warning that says why, if it is left out."""
    source = ".".join(path)
    values = _whole_texts(values_at(path, objects), source, warnings)
    name = column_name("_".join(path))
    if name is None or not (values or (schema_field and schema_field.type)):
        reason = "its name cannot become the name of a column" if values else "it is always null"
        warnings.append(f"Field {source!r} is left out: {reason}.")
        return None
    column_type = _column_type(values, schema_field)
    values = _fitting_values(values, column_type, source, warnings) if column_type and schema_field else values
    column = Column(name, "STRING", "", required=len(values) == len(objects), source=_source_of(path, name))
    if column_type is None or not fits(values, *column_type):
        misfit = f"it has values that do not fit {column_type[0][:60]}" if column_type else None
        warnings.append(f"Field {source!r} is left out: {misfit or _why_untyped(values, schema_field, column)}.")
        return None
    column = _typed_column(column, column_type, values, schema_field, warnings)
    warnings += _omission_warnings(values, column, source)
    return column


def _whole_texts(values: list[Any], source: str, warnings: list[str]) -> list[Any]:
    """The values without texts that no column can store; a warning counts them."""
    whole_values = [value for value in values if not (isinstance(value, str) and _HALF.search(value))]
    if len(whole_values) < len(values):
        warnings.append(
            f"Field {source!r} has half of a surrogate pair in {len(values) - len(whole_values):,} of {len(values):,}"
            ' values: their records are rejected. A column with written="json" can store them: see'
            " docs/how-to/envelopes.md."
        )
    return whole_values


def _source_of(path: Path, name: str) -> str | Path | None:
    """The source of a column for the field at a path; ``None`` if it is the field with the column's name."""
    return None if path == (name,) else path[0] if len(path) == 1 else path


def _typed_column(
    column: Column,
    column_type: tuple[str, str | None],
    values: Sequence[Any],
    schema_field: SchemaField | None,
    warnings: list[str],
) -> Column:
    """The column with its type; warnings say what to check."""
    type_, pattern = column_type
    typed_column = with_type(column, column_type)
    if type_ == "DATE" and pattern and _VERSION.fullmatch(column.name):
        warnings.append(_DATED.format(column.name, column_line(typed_column)))
        return column
    unit = named_epoch_unit(column.name, values) if values and type_ in ("INT", "BIGINT", "DOUBLE") else None
    if unit:
        warnings.append(epoch_warning(column.name, unit))
        return replace(typed_column, type="TIMESTAMP", written=Time(epoch=unit))
    if schema_field is None and type_.startswith("DECIMAL") and not type_.endswith(",0)"):
        warnings.append(
            f"{column.name} has more digits than a DOUBLE, so it is {type_}. Further decimal places are rounded."
        )
    is_optional = schema_field is not None and schema_field.optional
    checked_column = replace(typed_column, required=column.required and not is_optional)
    encoded = encoded_form(checked_column, values) if schema_field is None else None
    if advice := encoded.warning() if encoded else form_advice(checked_column, values):
        warnings.append(advice)
    elif type_ == "STRING" and values and are_like_times(values) and not is_identifier(column.name):
        warnings.append(f"{column.name} looks like a time, but no single pattern reads it. Declare its pattern.")
    if type_.startswith(_MAP) and schema_field is None:
        warnings.append(_FREE_NAMES.format(column.name, _line_in_map(typed_column, values)))
    return typed_column


def _line_in_map(column: Column, values: Sequence[dict[str, Any]]) -> str:
    """The line for a column that reads the first value of a map."""
    name = next(name for value in values for name in value)
    inner_type = column.type.removeprefix(_MAP).removesuffix(">")
    inner_name = f"{column.name}_{column_name(name) or 'value'}"
    return column_line(Column(inner_name, inner_type, "", source=(*column.field.place.names, name)))


def _why_untyped(values: Sequence[Any], schema_field: SchemaField | None, text_column: Column) -> str:
    """Why no type has all values of a field, and how ``text_column`` would take them."""
    if schema_field:
        return "no column can have the type of its schema"
    if not any(value or value == 0 or isinstance(value, str) for value in values):
        return "it is always empty"
    kinds = sorted({kind_of(value) for value in values})
    reason = f"it contains {' and '.join(kinds)}{' with more digits than any type has' if kinds == ['numbers'] else ''}"
    written: Written = "text_or_number" if {*kinds} <= {"numbers", "strings"} else "json"
    form = "its text" if written == "text_or_number" else "each value as JSON text"
    if written == "text_or_number" and (advised := find_form(text_column, values)):
        return f"{reason}. To store {advised.content}, write {column_line(advised.column)}"
    if kinds == ["arrays", "objects"]:
        path = text_column.field.place.names
        rows_from = quote(path[0]) if len(path) == 1 else f"({', '.join(map(quote, path))})"
        reason += f". For a row per object, write rows_from=Explode({rows_from}, single_object=True)"
    most_common = _most_common_line(values, text_column)
    return f"{reason}. {most_common}To store {form}, write {column_line(replace(text_column, written=written))}"


def _most_common_line(values: Sequence[Any], text_column: Column) -> str:
    """How to take the values of one kind, if nearly all have it; empty if no kind is so common."""
    (kind, count), *_ = Counter(map(kind_of, values)).most_common(1)
    common_values = [value for value in values if kind_of(value) == kind]
    type_ = type_of(common_values) if count >= least_common(len(values)) else None
    if type_ is None:
        return ""
    line = column_line(with_type(text_column, type_))
    return f"For the {count:,} {kind} of {len(values):,} values, write {line}: records with another one are rejected. "


def _omission_warnings(values: Sequence[Any], column: Column, source: str) -> Iterator[str]:
    """Which fields within the values of a column are left out, and why."""
    paths = set[str]().union(*(omitted_fields(value, column.field) for value in values))
    full_paths = set[str]().union(*(omitted_fields(value, column.field, with_content=True) for value in values))
    reasons = {_NO_TYPE: sorted(full_paths), "they are always null or empty": sorted(paths - full_paths)}
    for reason, omitted_paths in reasons.items():
        shown_text = ", ".join(map(repr, omitted_paths[:_MAX_SHOWN]))
        omitted_text = f", and {len(omitted_paths) - _MAX_SHOWN:,} more" if len(omitted_paths) > _MAX_SHOWN else ""
        if omitted_paths:
            yield f"Fields within {source!r} are left out, because {reason}: {shown_text}{omitted_text}."


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
    known_values = [value for value in values if not isinstance(value, UnrepresentableValue)]
    if schema_field is None or (known_values and schema_field.type == "STRING"):
        return type_of(known_values if schema_field else values)
    return (schema_field.type, None) if schema_field.type else None
