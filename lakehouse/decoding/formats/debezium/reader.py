"""Read a change: which row, what happened to it, and where in the log of its database.

An envelope has the row ``before`` and ``after`` the change, the operation ``op`` and the ``source``. Pure and
self-contained (the standard library only).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field, Rejection, json_kind, short_text
from lakehouse.decoding.formats.debezium.documents import read_document
from lakehouse.decoding.formats.debezium.position import (
    MONGODB,
    document_position,
    is_of_mongodb,
    source_origin,
    source_position,
)
from lakehouse.decoding.formats.debezium.schemas import Converters, avro_converters, json_converters
from lakehouse.decoding.formats.debezium.values import PLACEHOLDER, Placeholder, iso_time
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import split_frame
from lakehouse.decoding.formats.parser import Change, ChangeOpener, Parser
from lakehouse.decoding.numbers import number_in
from lakehouse.decoding.record_parts import VALUE
from lakehouse.decoding.staged import LAST, PART, WHOLE

ADDED_FIELDS = "op,source.lsn,source.snapshot"
ADDED_FIELDS_OF_MYSQL = "op,source.file,source.pos,source.server_id,source.snapshot"
DELETES_AS_ROWS = "delete.tombstone.handling.mode=rewrite"
"""What the transform needs so that its rows have the operation, the position and the deletes."""
_OPERATIONS = ("c", "u", "d", "r", "t")
_WRITES = ("c", "u", "r")
_LIMIT = 2**63
_NOTHING: frozenset[str] = frozenset()
_UPDATE, _DELETE, _READ, _TRUNCATE = "u", "d", "r", "t"
_WHOLE_SNAPSHOT = (True, "true", "first", "first_in_data_collection")
_LAST_OF_SNAPSHOT = ("last", "last_in_data_collection")
_PREFIX = "__"
_ENVELOPE = {"after", "source", "op"}
_WITH_SCHEMA = {"schema", "payload"}
_METADATA = ("op", "deleted", "lsn", "file", "pos", "connector")
_NO_SCALE = (
    "and its scale is unknown: set decimal.handling.mode=string in the connector, and decimal_handling_mode='string'"
    " in Debezium(), then let it take a snapshot"
)
_NO_OPERATION = (
    "the record has no 'op': if the transform ExtractNewRecordState is used, declare flattened=True, else check format="
)
_NO_FLAT_OPERATION = (
    f"the record has no '__op': set {DELETES_AS_ROWS} in the transform, and add.fields={ADDED_FIELDS}, or"
    f" {ADDED_FIELDS_OF_MYSQL} for MySQL"
)
_ENVELOPED = "the record has its envelope: use the transform ExtractNewRecordState, or remove flattened=True"
_NO_FLAT_VALUE = f"the record has no value: set {DELETES_AS_ROWS} in the transform"
_NUMBERS_OF_SOURCE = ("lsn", "pos", "server_id", "snapshot")
_NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL")


class ChangeRules(NamedTuple):
    """How changes are written: without their envelope, with numbers as texts, by schemas of a registry.

    ``placeholder`` is in place of values that the database did not send. ``has_documents``: rows are texts.
    """

    is_flattened: bool
    has_text_numbers: bool
    needs_schemas: bool
    placeholder: str = PLACEHOLDER
    has_documents: bool = False


class _Event(NamedTuple):
    """The operation of a change, the row that it leaves or deletes, its source, and the row before."""

    operation: str
    row: dict[str, Any]
    source: Mapping[str, Any]
    former_row: Any = None

    def change_of(self, row: dict[str, Any], unavailable: frozenset[str]) -> Change:
        """What the event says with a converted row."""
        is_update, is_read = self.operation == _UPDATE, self.operation == _READ
        sides = (self.former_row, self.row) if is_update and isinstance(self.former_row, dict) else None
        origin = None if is_read else source_origin(self.source)  # a row of a snapshot has no server
        is_truncate, position = self.operation == _TRUNCATE, source_position(self.source)
        snapshot = _snapshot_of(self.source) if is_read else None
        is_delete = self.operation == _DELETE
        return Change(row, is_delete, position, snapshot, unavailable, is_truncate, is_truncate, origin, sides)


def _snapshot_of(source: Mapping[str, Any]) -> str:
    """What a row is in a snapshot, as in ``Change``."""
    marker = source.get("snapshot")
    return LAST if marker in _LAST_OF_SNAPSHOT else WHOLE if marker in _WHOLE_SNAPSHOT else PART


class ChangeReader:
    """Reads changes from their parsed contents; ``parser`` parses these."""

    def __init__(self, parser: Parser, schemas: Schemas, rules: ChangeRules) -> None:
        self.parser, self._schemas, self._rules = parser, schemas, rules
        self._converters: dict[int, Converters] = {}
        self._placeholder = Placeholder(rules.placeholder)
        self._json_schema: Any = None
        self._json_converters: Converters = {}

    def opener(self, fields: tuple[Field, ...], *, is_exact: bool) -> ChangeOpener:
        """Return what reads one change from its content and its bytes, as ``Parser.change_opener`` says."""
        if self._rules.has_documents:
            return partial(self._open_document, is_exact=is_exact)
        return self._row_opener(fields, is_exact=is_exact)

    def _row_opener(self, fields: tuple[Field, ...], *, is_exact: bool) -> ChangeOpener:
        read_event = _flat_event if self._rules.is_flattened else _enveloped_event
        value_fields = [field for field in fields if field.place.part == VALUE]
        declared_texts = DeclaredTexts(value_fields, has_text_numbers=self._rules.has_text_numbers)

        open_plain = self._plain_opener(declared_texts)

        def open_change(content: Any, value: bytes | None) -> Change:
            if value is None:
                return self._open_tombstone()
            message, converters = self._message_in(content, value)
            if not converters and (plain_change := open_plain(message)) is not None:
                return plain_change
            event = read_event(message)
            if not is_exact:
                _require_exact(event.source, _NUMBERS_OF_SOURCE)
            if event.operation == _TRUNCATE:
                return event.change_of({}, frozenset())
            row = event.row
            unavailable = self._unavailable_in(event, value_fields)
            if converters or unavailable:
                row = _convert_row(row, converters, unavailable, is_exact=is_exact)
            if declared_texts.fields:
                row = declared_texts.read(row, converters, is_delete=event.operation == _DELETE)
            return event.change_of(row, unavailable)

        return open_change

    def _open_document(self, content: Any, value: bytes | None, *, is_exact: bool) -> Change:
        """Read the change of a document; of one that was deleted, only the key of the record says which."""
        if value is None:
            return self._open_tombstone()
        message, _ = self._message_in(content, value)
        operation, source = _known_operation(message.get("op")), _require_object(message.get("source"), "source")
        if not is_exact:
            _require_exact(source, ("ts_ms", "ord", "snapshot"))
        options, is_write = self.parser.json_options, operation in _WRITES
        document = read_document(message.get("after"), options) if is_write else {}
        place = document_position(source), _snapshot_of(source) if operation == _READ else None
        is_truncate = operation == _TRUNCATE
        return Change(document, operation == _DELETE, *place, is_rowless=is_truncate, truncates=is_truncate)

    def _plain_opener(self, declared_texts: "DeclaredTexts") -> Callable[[Mapping[str, Any]], Change | None]:
        """Return what reads a change of PostgreSQL that leaves a row, in half the time, and nothing of any other."""
        names, may_be_in = [name for name, _ in declared_texts.fields], self._placeholder.may_be_in
        is_flattened = self._rules.is_flattened

        def open_plain(message: Mapping[str, Any]) -> Change | None:
            source = None if is_flattened else message.get("source")
            if type(source) is not dict or source.get("connector") != "postgresql" or "file" in source:
                return None
            position, operation, row = source.get("lsn"), message.get("op"), message.get("after")
            if type(position) is not int or not 0 <= position < _LIMIT or type(row) is not dict:
                return None
            if operation not in _WRITES or may_be_in(row.values()) or str in [type(row.get(name)) for name in names]:
                return None
            former_row = message.get("before") if operation == _UPDATE else None
            sides = (former_row, row) if type(former_row) is dict else None
            if operation == _READ and type(source.get("snapshot")) is float:  # of a native parser
                return None
            snapshot = _snapshot_of(source) if operation == _READ else None
            return Change(row, False, position, snapshot, _NOTHING, False, False, None, sides)

        return open_plain

    def _open_tombstone(self) -> Change:
        if self._rules.is_flattened:
            raise Rejection("tombstone", _NO_FLAT_VALUE)
        return Change({}, is_rowless=True)

    def _unavailable_in(self, event: _Event, fields: Iterable[Field]) -> frozenset[str]:
        """The names of the values that the source did not send."""
        row, placeholder = event.row, self._placeholder
        if not row or not placeholder.may_be_in(row.values()):
            return frozenset()
        unavailable = frozenset(name for name, raw in row.items() if placeholder.is_in(raw))
        if unavailable and event.operation != _DELETE:
            _require_values(unavailable, fields, event)
        return unavailable

    def _message_in(self, content: Any, value: bytes) -> tuple[dict[str, Any], Converters]:
        """The message, and what converts the values of its row by the types in its schema."""
        if not isinstance(content, dict):
            raise Rejection("not_an_object", f"the value is {json_kind(content)}, not an object")
        is_flattened = self._rules.is_flattened
        if self._rules.needs_schemas:
            schema_id, _ = split_frame(value)
            if schema_id not in self._converters:
                self._converters[schema_id] = avro_converters(self._schemas.by_id[schema_id], is_flattened=is_flattened)
            return content, self._converters[schema_id]
        if content.keys() != _WITH_SCHEMA:
            return content, {}
        if content["schema"] != self._json_schema:  # records in a row mostly have the same schema
            self._json_schema = content["schema"]
            self._json_converters = json_converters(content["schema"], is_flattened=is_flattened)
        return _require_object(content["payload"], "payload"), self._json_converters


def _require_exact(values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Reject doubles that a native parser made of numbers which decide: they may show less than was written."""
    for name in names:
        if _has_double(values.get(name)):
            raise Rejection("wrong_type", f"{name!r} is a double")


def _has_double(raw: Any) -> bool:
    return any(map(_has_double, raw)) if type(raw) is list else type(raw) is float


def _convert_row(
    row: Mapping[str, Any], converters: Converters, unavailable: frozenset[str], *, is_exact: bool
) -> dict[str, Any]:
    """The row without what was not sent, its values by the types of the connector."""
    if not is_exact:
        _require_exact(row, (*converters, *unavailable))
    return {
        name: converters[name](raw) if raw is not None and name in converters else raw
        for name, raw in row.items()
        if name not in unavailable
    }


class DeclaredTexts:
    """Reads texts as the times and numbers that columns declare, if no schema gave their types."""

    def __init__(self, fields: Iterable[Field], *, has_text_numbers: bool) -> None:
        self._has_text_numbers = has_text_numbers
        types = ("TIMESTAMP", *_NUMBERS) if has_text_numbers else ("TIMESTAMP", "DECIMAL")
        single_fields = [field for field in fields if len(field.place.names) == 1]
        single_fields = [field for field in single_fields if field.form.pattern is None and field.form.written is None]
        self.fields = [(field.place.names[0], field) for field in single_fields if field.type.startswith(types)]

    def read(self, row: dict[str, Any], converters: Converters, *, is_delete: bool) -> dict[str, Any]:
        """Return the row with these values."""
        values: dict[str, Any] = {}
        for name, field in self.fields:
            raw = row.get(name)
            if type(raw) is not str or name in converters:
                continue
            if field.type == "TIMESTAMP":
                values[name] = iso_time(raw)
            elif self._has_text_numbers:
                number = number_in(raw)
                values[name] = raw if number is None else number
            elif not is_delete:
                raise Rejection("wrong_type", f"{field.source!r} is text {short_text(raw)}, {_NO_SCALE}")
        return row | values if values else row


def _enveloped_event(message: Mapping[str, Any]) -> _Event:
    """Return the event of an envelope."""
    operation, source = message.get("op"), message.get("source")
    if operation not in _OPERATIONS or type(source) is not dict or source.get("connector") == "mongodb":
        if is_of_mongodb(message):
            raise Rejection("invalid_change", MONGODB)
        operation, source = _known_operation(operation), _require_object(source, "source")
    side = "before" if operation == _DELETE else "after"
    if operation == _DELETE and message.get(side) is None:
        raise Rejection("invalid_change", "the delete has no key: set a replica identity for the table in the database")
    row = {} if operation == _TRUNCATE else _require_object(message.get(side), side)
    return _Event(operation, row, source, message.get("before"))


def _flat_event(message: Mapping[str, Any]) -> _Event:
    """Return the event of a row whose envelope was removed, with the prefix ``__`` before fields of the envelope."""
    metadata = {name: message.get(f"{_PREFIX}{name}") for name in _METADATA}
    prefix = f"{_PREFIX}source_"
    source = metadata | {name.removeprefix(prefix): raw for name, raw in message.items() if name.startswith(prefix)}
    added_fields = {f"{_PREFIX}{name}" for name in _METADATA}
    row = {name: raw for name, raw in message.items() if name not in added_fields and not name.startswith(prefix)}
    if metadata["op"] is None:
        is_enveloped = message.keys() >= _ENVELOPE
        raise Rejection("invalid_change", _ENVELOPED if is_enveloped else _NO_FLAT_OPERATION)
    return _Event(_known_operation(metadata["op"]), row, source)


def _known_operation(operation: Any) -> str:
    if operation is None:
        raise Rejection("invalid_change", _NO_OPERATION)
    if not isinstance(operation, str) or operation not in _OPERATIONS:
        raise Rejection("unknown_operation", f"'op' is {short_text(operation)}, expected c, u, d, r or t")
    return operation


def _require_object(raw: Any, name: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Rejection("invalid_change", f"{name!r} is {json_kind(raw)}, expected an object")
    return raw


def _require_values(unavailable: Collection[str], fields: Iterable[Field], event: _Event) -> None:
    """Reject a change without a value that is not stored, or that it would overwrite with nothing.

    Only an update may come without values. A new row does if its key changed: the value is stored under the former key.
    """
    for field in fields:
        names = field.place.names if field.place.names[0] in event.row or not field.place.former else field.place.former
        if names[0] not in unavailable:
            continue
        if event.operation != _UPDATE:
            remedy = "set REPLICA IDENTITY FULL for the table in the database, and take a snapshot of the row"
            raise Rejection("unavailable_value", f"{field.source!r} was not sent with a new row: {remedy}")
        if not field.limits.null_erases:
            remedy = "declare keep=True and null_erases=True for its column, then redrive the record"
            raise Rejection("unavailable_value", f"{field.source!r} was not sent, as it did not change: {remedy}")
