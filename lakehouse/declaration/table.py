"""``StreamTable``, the declaration of a table: checked when it is created."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse.declaration.export import OutletParts
from lakehouse.declaration.names import refuse_former
from lakehouse.declaration.rules.table_rules import table_problems
from lakehouse.declaration.sources import Topic
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.view import View
from lakehouse.decoding.deletes import Delete, Truncate
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas, WriterSchema
from lakehouse.decoding.record_keys import key_format
from lakehouse.decoding.record_parts import HEADER, KEY, TIME
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EMPTY, FILTERED
from lakehouse.errors import DeclarationError

if TYPE_CHECKING:
    from lakehouse.decoding.one_record import Verdict

T = TypeVar("T", bound="StreamTable | View | OutletParts")


class _FollowingName(str):
    """The name of a topic that one of ``topic`` and ``source`` got from the other, so ``replace`` may change that."""

    __slots__ = ()


@refuse_former
@dataclass(frozen=True)
class StreamTable(TableParts):
    """A table that is kept up to date from a source, with everything that is derived from it.

    Grain: one row per ``key``. If the key is empty, one row per record: this is a log table, to which each record is
    added once. A log table has no change feed, because it is one. ``topic`` is short for ``source=Topic(...)``.
    ``version`` names a column that decides which record is newer, before the broker's timestamp does; ``Version(...)``
    also says what a NULL in it means. ``max_records`` is how many positions a batch takes at most, unless a run
    requests another number. ``where`` says which records of the source belong to the table, in one condition or in
    several that must all hold; others are counted as filtered, and not stored. ``rows_from`` is the name of the field
    whose value is an array of rows, or its path; ``()`` if each record is such an array, and ``Explode(...)`` with
    options. Each element is then a row. ``rejects`` are rules that reject records by the values of their rows.
    """

    def __post_init__(self) -> None:
        """Refuse a declaration that would corrupt its tables or fail later."""
        topic, source = self.topic, self.source
        is_short = isinstance(source, Topic) and isinstance(source.name, _FollowingName)
        if is_short and topic and not isinstance(topic, _FollowingName):  # ``replace`` with another topic
            source = None
        elif isinstance(topic, _FollowingName) and not is_short:  # ``replace`` with another source
            topic = ""
        if source is None and topic:
            topic = _FollowingName(topic)
            source = Topic(topic)
        if isinstance(source, Topic) and not topic:
            topic = _FollowingName(source.name)
        object.__setattr__(self, "topic", topic)
        object.__setattr__(self, "source", source)
        for message, action in table_problems(self):
            raise DeclarationError(f"Table {self.name!r}: {message}", action=action)

    @property
    def key_format(self) -> Format | None:
        """The format of keys, if they are decoded by schemas of a registry."""
        return key_format(self.fields)

    @property
    def schema_format(self) -> Format | None:
        """The format of its schemas, ``None`` if it has none; that of keys also takes all schemas of values."""
        return self.key_format or (self.format if self.format.needs_schemas else None)

    def decode(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        time: datetime | None = None,
        schemas: Mapping[int, WriterSchema] = NO_SCHEMAS.by_id,
    ) -> dict[str, Any]:
        """Decode one record into a value for each column that is read from records; absent and null are ``None``.

        ``key``, ``headers`` and the broker's ``time``, which must have a zone, are used if a column reads them. If the
        format or the key has schema ids, ``schemas`` maps them to schemas, as ``writer_schema`` creates them. Lateness
        is not checked, because it depends on when the broker received the record. Computed columns are left to Spark,
        and so are the rules of ``rejects``. A delete is a ``Delete`` with its key and version, a truncate is a
        ``Truncate`` with its version. Raises ``Rejection`` with the reason and the detail if the record is rejected;
        the reason is ``filtered`` if it does not meet ``where``. Raises ``ValueError`` if the time has no zone, or if
        the table has ``rows_from``, or if a column is the name of one of several topics: then call it on
        ``in_topic(NAME)``.
        """
        if self.has_elements:
            raise ValueError("The table has rows_from, so a record has any number of rows: call decode_rows")
        (verdict,) = self._judge(value, _parts_of(key, headers, time), schemas)
        return self._row_of(verdict)

    def decode_rows(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        time: datetime | None = None,
        schemas: Mapping[int, WriterSchema] = NO_SCHEMAS.by_id,
    ) -> list[dict[str, Any] | Rejection]:
        """Decode one record into its rows, like ``decode``: one for each element if the table has ``rows_from``.

        In place of an element that is rejected is its ``Rejection``, and one that is filtered is left out. Raises
        ``Rejection`` if the record is rejected as a whole, or filtered.
        """
        verdicts = self._judge(value, _parts_of(key, headers, time), schemas)
        chosen = (verdict for verdict in verdicts if verdict.reason != FILTERED)
        return [Rejection(v.reason, v.detail or "") if v.reason else self._row_of(v) for v in chosen]

    def _judge(
        self, value: bytes | None, parts: Mapping[str, Any], schemas: Mapping[int, WriterSchema]
    ) -> "list[Verdict]":
        """Return the verdicts on its rows; raises ``Rejection`` if the record is rejected as a whole, or filtered."""
        from lakehouse.decoding.one_record import judge_record  # noqa: PLC0415 - pyarrow is slow to import

        verdicts = judge_record(value, self._rules_of(schemas)._replace(lateness=None), parts)
        reason, detail = verdicts[0].reason, verdicts[0].detail or ""
        if reason is None or verdicts[0].place is not None:
            return verdicts
        if reason == EMPTY:
            return []
        raise Rejection(reason, "the record does not meet where= of the table" if reason == FILTERED else detail)

    def _row_of(self, verdict: "Verdict") -> dict[str, Any]:
        if verdict.deletes:
            return Delete(verdict.row)
        if verdict.is_rowless:
            return Truncate(verdict.row) if verdict.truncates else Delete()
        return dict.fromkeys(field.name for field in self.fields) | verdict.row

    def _rules_of(self, schemas: Mapping[int, WriterSchema]) -> Rules:
        if self.reads_topic and not self.topic:
            raise ValueError("A column is the name of the topic, and the table has several: call it on in_topic(NAME)")
        return self.rules(Schemas(schemas, {}))


def _parts_of(key: bytes | None, headers: Mapping[str, bytes] | None, time: datetime | None) -> dict[str, Any]:
    """Return the parts of a record other than its value; raises ``ValueError`` if the time has no zone."""
    if time and time.tzinfo is None:
        raise ValueError(f"The broker's time has no zone: {time}")
    header_values = {f"{HEADER}{name}": content for name, content in (headers or {}).items()}
    microseconds = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) if time else None
    return {**header_values, KEY: key, TIME: microseconds}


def require_distinct_names(*declarations: T) -> tuple[T, ...]:
    """Return the tables, views, exports and sinks; ``DeclarationError`` if two declarations use the same name.

    Two tables in one folder would overwrite each other's rows, and Dagster accepts no name twice.
    """
    owners: dict[str, str] = {}
    for declaration in declarations:
        for name in declaration.names:
            if name in owners:
                is_twin = owners[name] == declaration.name
                other_user = "another declaration" if is_twin else f"the declaration of {owners[name]!r}"
                kind = type(declaration).__name__ if isinstance(declaration, View | OutletParts) else "Table"
                subject = f"{kind} {declaration.name!r}"
                message = f"{subject}: {other_user} also uses the name {name}"
                raise DeclarationError(message, action="Rename one of the two.")
        owners |= dict.fromkeys(declaration.names, declaration.name)
    return declarations
