"""Columns for the keys of records, if they have the id of a known schema in front."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse.declaration.inference.proposal import Proposal
from lakehouse.declaration.names import column_name
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.formats import KEY_FORMATS
from lakehouse.decoding.formats.format import Path, SchemaField, Schemas
from lakehouse.decoding.formats.framing import has_frame
from lakehouse.decoding.record_keys import key_parser
from lakehouse.decoding.record_parts import KeyEncoding, RecordKey

_MAX_FIELDS = 100
_WHOLE = "record_key"  # the column for a key of one value
_READ = (
    "Every key is {}, by its schema at the registry: {}. If these keys identify a row, name their columns in key=, with"
    " required=True. Else they can be removed."
)


def are_framed(keys: Sequence[bytes | None]) -> bool:
    """Whether all keys may have the id of a schema in front; the bytes of a number also begin with 0."""
    present_keys = [key for key in keys if key is not None]
    return bool(present_keys) and all(key and has_frame(key) for key in present_keys)


def with_schema_key(
    proposal: Proposal, keys: Sequence[bytes | None], encoding: KeyEncoding, schemas: Schemas
) -> Proposal:
    """Return the proposal with columns for the keys, if the ``schemas`` read every key."""
    form = KEY_FORMATS[encoding]
    parse_key = key_parser([Column(_WHOLE, "STRING", "", source=RecordKey(encoding)).field], schemas)
    parsed_keys = [parse_key(key) for key in keys] if parse_key else []
    fields = form.schema_fields(form.used_schemas(keys, schemas), _MAX_FIELDS) or {}
    if not proposal.columns or any(parsed.rejection for parsed in parsed_keys if parsed):
        return proposal
    columns = _columns(fields, encoding, {column.name for column in proposal.columns})
    if not columns:
        return proposal
    shown_columns = ", ".join(f"{column.name} is the {column.field.source}" for column in columns)
    warnings = (*proposal.warnings, _READ.format(form.name, shown_columns))
    return replace(proposal, columns=(*columns, *proposal.columns), warnings=warnings)


def _columns(fields: Mapping[Path, SchemaField], encoding: KeyEncoding, taken_names: set[str]) -> list[Column]:
    """The columns of the fields that have a type and a name; a key has no arrays, maps and structs."""
    columns: dict[str, Column] = {}
    for path, field in fields.items():
        name = column_name("_".join(path)) if path else _WHOLE
        name = f"key_{name}" if name in taken_names else name
        if name and field.type and "<" not in field.type and name not in {*taken_names, *columns}:
            source = RecordKey(encoding, path[0] if len(path) == 1 else path)
            columns[name] = Column(name, field.type, "", source=source)
    return list(columns.values())
