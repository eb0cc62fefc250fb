"""Columns for the keys of records, if they have the id of a known schema in front."""

from collections.abc import Mapping, Sequence

from lakehouse.declaration.inference.key_columns import WHOLE, key_column, with_key_columns
from lakehouse.declaration.inference.proposal import Proposal
from lakehouse.declaration.inference.proposed_changes import KeyedValue
from lakehouse.declaration.names import column_name
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KEY_FORMATS
from lakehouse.decoding.formats.format import NO_SCHEMAS, Path, SchemaField, Schemas
from lakehouse.decoding.formats.framing import has_frame
from lakehouse.decoding.record_parts import KeyEncoding, RecordKey

_MAX_FIELDS = 100
_SUBJECT = "Every key is {}, by its schema at the registry"


def are_framed(keys: Sequence[bytes | None]) -> bool:
    """Whether all keys may have the id of a schema in front; the bytes of a number also begin with 0."""
    present_keys = [key for key in keys if key is not None]
    return bool(present_keys) and all(key and has_frame(key) for key in present_keys)


def with_schema_key(
    proposal: Proposal,
    records: Sequence[KeyedValue],
    encoding: KeyEncoding,
    key_schemas: Schemas,
    value_schemas: Schemas = NO_SCHEMAS,
) -> Proposal:
    """Return the proposal with columns for the keys, if the ``key_schemas`` read every key."""
    form, keys = KEY_FORMATS[encoding], [record.key for record in records]
    fields = form.schema_fields(form.used_schemas(keys, key_schemas), _MAX_FIELDS) or {}
    try:
        columns = [key_column(column, keys, key_schemas) for column in _columns(fields, encoding)]
    except Rejection:
        return proposal
    if not proposal.columns or not columns:
        return proposal
    return with_key_columns(proposal, columns, _SUBJECT.format(form.name), records, value_schemas)


def _columns(fields: Mapping[Path, SchemaField], encoding: KeyEncoding) -> list[Column]:
    """The columns of the fields that have a type and a name; a key has no arrays, maps and structs."""
    columns: dict[str, Column] = {}
    for path, field in fields.items():
        name = column_name("_".join(path)) if path else WHOLE
        if name and field.type and "<" not in field.type and name not in columns:
            columns[name] = Column(
                name, field.type, "", source=RecordKey(encoding, path[0] if len(path) == 1 else path)
            )
    return list(columns.values())
