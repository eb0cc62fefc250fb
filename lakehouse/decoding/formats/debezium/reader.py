"""Read a change: which row, what happened to it, and where in the log of its database.

An envelope has the row ``before`` and ``after`` the change, the operation ``op`` and the ``source``. Pure and
self-contained (the standard library only).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field, Rejection, json_kind, short_text
from lakehouse.decoding.formats.debezium.connector import ADDED_FIELDS, ADDED_FIELDS_OF_MYSQL, DELETES_AS_ROWS
from lakehouse.decoding.formats.debezium.position import MONGODB, is_of_mongodb, source_origin, source_position
from lakehouse.decoding.formats.debezium.schemas import Converters, avro_converters, json_converters
from lakehouse.decoding.formats.debezium.values import PLACEHOLDER, Placeholder, iso_time
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import split_frame
from lakehouse.decoding.formats.parser import Change, Parser
from lakehouse.decoding.numbers import number_in
from lakehouse.decoding.record_parts import VALUE
from lakehouse.decoding.staged import LAST, PART, WHOLE

_OPERATIONS = ("c", "u", "d", "r", "t")
_UPDATE, _DELETE, _READ, _TRUNCATE = "u", "d", "r", "t"
_WHOLE_SNAPSHOT = (True, "true", "first", "first_in_data_collection")
_LAST_OF_SNAPSHOT = ("last", "last_in_data_collection")
_PREFIX = "__"
_ENVELOPE = {"after", "source", "op"}
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
_NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL")


class ChangeRules(NamedTuple):
    """How changes are written: without their envelope, with numbers as texts, by schemas of a registry.

    ``placeholder`` is in place of values that the database did not send.
    """

    is_flattened: bool
    has_text_numbers: bool
    needs_schemas: bool
    placeholder: str = PLACEHOLDER


class _Message(NamedTuple):
    """A parsed message, and what converts the values of its row by the types in its schema."""

    content: dict[str, Any]
    converters: Converters


class _Event(NamedTuple):
    """The operation of a change, the row that it leaves or deletes, its source, and the row before."""

    operation: str
    row: dict[str, Any]
    source: Mapping[str, Any]
    former_row: Any = None

    @property
    def sides(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The row before and after an update, if the connector sent both."""
        is_known = self.operation == _UPDATE and isinstance(self.former_row, dict)
        return (self.former_row, self.row) if is_known else None

    @property
    def position(self) -> int:
        """The position in the source."""
        return source_position(self.source)

    @property
    def origin(self) -> int | None:
        """Of a change, the server and the binlog of its position; a row of a snapshot has no server."""
        return None if self.operation == _READ else source_origin(self.source)

    @property
    def snapshot(self) -> str | None:
        """What the row is in a snapshot, as in ``Change``; ``None`` if it is part of none."""
        if self.operation != _READ:
            return None
        marker = self.source.get("snapshot")
        return LAST if marker in _LAST_OF_SNAPSHOT else WHOLE if marker in _WHOLE_SNAPSHOT else PART


class ChangeReader:
    """Reads changes with the parser of their values."""

    def __init__(self, parser: Parser, schemas: Schemas, rules: ChangeRules) -> None:
        self.parser, self._schemas, self._rules = parser, schemas, rules
        self._converters: dict[int, Converters] = {}
        self._placeholder = Placeholder(rules.placeholder)

    def read(self, value: bytes | None, fields: tuple[Field, ...]) -> Change:
        """Read one change; ``fields`` are those that are read. Raises ``Rejection`` if it is not valid."""
        if value is None and not self._rules.is_flattened:
            return Change({}, is_rowless=True)
        if value is None:
            raise Rejection("tombstone", _NO_FLAT_VALUE)
        message = self._parse(value)
        event = _flat_event(message.content) if self._rules.is_flattened else _enveloped_event(message.content)
        if event.operation == _TRUNCATE:
            return Change({}, sequence=event.position, is_rowless=True, truncates=True, origin=event.origin)
        unavailable = frozenset(name for name, raw in event.row.items() if self._placeholder.is_in(raw))
        if event.operation != _DELETE:
            _require_values(unavailable, fields, event)
        converters = message.converters
        row = {
            name: converters[name](raw) if raw is not None and name in converters else raw
            for name, raw in event.row.items()
            if name not in unavailable
        }
        is_delete = event.operation == _DELETE
        row |= dict(self._declared_values(row, fields, converters, is_delete=is_delete))
        change = Change(row, is_delete, event.position, event.snapshot, unavailable)
        return change._replace(sides=event.sides, origin=event.origin)

    def _parse(self, value: bytes | None) -> _Message:
        content = self.parser(value)
        if self._rules.needs_schemas:
            schema_id, _ = split_frame(value)
            if schema_id not in self._converters:
                schema = self._schemas.by_id[schema_id]
                self._converters[schema_id] = avro_converters(schema, is_flattened=self._rules.is_flattened)
            return _Message(content, self._converters[schema_id])
        if content.keys() == {"schema", "payload"}:
            payload = _require_object(content["payload"], "payload")
            return _Message(payload, json_converters(content["schema"], is_flattened=self._rules.is_flattened))
        return _Message(content, {})

    def _declared_values(
        self, row: Mapping[str, Any], fields: Iterable[Field], converters: Collection[str], *, is_delete: bool
    ) -> Iterator[tuple[str, Any]]:
        """Yield the values of texts that columns read as times and numbers, if no schema gave their types."""
        for field in fields:
            name = field.names[0]
            raw = row.get(name) if field.part == VALUE and len(field.names) == 1 else None
            if not isinstance(raw, str) or name in converters:
                continue
            if field.type == "TIMESTAMP" and field.pattern is None:
                yield name, iso_time(raw)
            elif field.type.startswith(_NUMBERS) and self._rules.has_text_numbers:
                number = number_in(raw)
                yield name, raw if number is None else number
            elif field.type.startswith("DECIMAL") and not is_delete:
                raise Rejection("wrong_type", f"{field.source!r} is text {short_text(raw)}, {_NO_SCALE}")


def _enveloped_event(message: Mapping[str, Any]) -> _Event:
    """Return the event of an envelope."""
    if is_of_mongodb(message):
        raise Rejection("invalid_change", MONGODB)
    operation = _known_operation(message.get("op"))
    source = _require_object(message.get("source"), "source")
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


def _require_values(unavailable: Collection[str], fields: tuple[Field, ...], event: _Event) -> None:
    """Reject a change without a value that is not stored, or that it would overwrite with nothing.

    Only an update may come without values. A new row does if its key changed: the value is stored under the former key.
    """
    for field in fields if unavailable else ():
        names = field.names if field.names[0] in event.row or not field.former else field.former
        if field.part != VALUE or names[0] not in unavailable:
            continue
        if event.operation != _UPDATE:
            remedy = "set REPLICA IDENTITY FULL for the table in the database, and take a snapshot of the row"
            raise Rejection("unavailable_value", f"{field.source!r} was not sent with a new row: {remedy}")
        if not field.null_erases:
            remedy = "declare keep=True and null_erases=True for its column, then redrive the record"
            raise Rejection("unavailable_value", f"{field.source!r} was not sent, as it did not change: {remedy}")
