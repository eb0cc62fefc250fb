"""What a catalog has of a table, made from the table's log and its declaration, and how two of them differ."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings.store import Store
from lakehouse.storage.layout import Layout

TABLE_ID = "lakehouse.table_id"
"""The property with the id that Delta gave the table; only registrations of lakehouse have it."""
_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True)
class RegisteredColumn:
    """A column in a catalog. ``field`` is it in the schema of Delta; empty if it was read from a catalog."""

    name: str
    type: str
    comment: str
    nullable: bool = True
    field: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Registration:
    """A table in a catalog. ``owner`` is ``None`` if the catalog decides it. Without ``table_id``, it is not ours."""

    name: str
    location: str
    columns: tuple[RegisteredColumn, ...]
    doc: str
    owner: str | None
    table_id: str

    def differences(self, stored: "Registration") -> list[str]:
        """Say in what another registration differs from this one, a sentence each; empty if they are equal."""
        facts = {"location": "location", "table_id": "table id", "owner": "owner", "doc": "description"}
        pairs = {fact: (getattr(self, name), getattr(stored, name)) for name, fact in facts.items()}
        sentences = [f"Its {fact} is {other!r}, not {own!r}." for fact, (own, other) in pairs.items() if own != other]
        return [*sentences, *self._column_differences({column.name: column for column in stored.columns})]

    def _column_differences(self, stored: Mapping[str, RegisteredColumn]) -> Iterator[str]:
        columns = {column.name: column for column in self.columns}
        yield from (f"Column {name} is missing." for name in columns if name not in stored)
        yield from (f"Column {name} is surplus." for name in stored if name not in columns)
        for name in filter(stored.__contains__, columns):
            for fact in ("type", "comment", "nullable"):
                own, other = getattr(columns[name], fact), getattr(stored[name], fact)
                if own != other:
                    yield f"Column {name} has {fact} {other!r}, not {own!r}."
        if columns.keys() == stored.keys() and [*columns] != [*stored]:
            yield "Its columns have another order."


def read_registration(layout: Layout, owner: str) -> Registration | None:
    """Return what the newest version of a table says, with the declared meanings; ``None`` if there is no table.

    Raises ``TableError`` if its log cannot be read.
    """
    table = open_table(layout.uri)
    if table is None:
        return None
    with log_failures(layout.uri):
        fields, table_id = json.loads(table.schema().to_json())["fields"], str(table.metadata().id)
    docs = {column.name: column.doc for column in layout.columns}
    columns = (
        RegisteredColumn(
            name=part["name"],
            type=type_text(part["type"]),
            comment=_flat(part["metadata"].get("comment") or docs.get(part["name"], "")),
            nullable=part["nullable"],
            field=part,
        )
        for part in fields
    )
    location = Store(layout.uri).catalog_location
    return Registration(layout.name, location, tuple(columns), _flat(layout.doc), owner, table_id)


def type_text(type_: Any) -> str:
    """Return a type of Delta's schema as Spark and Hive write it."""
    if isinstance(type_, str):
        return _NAMES.get(type_, type_)
    if type_["type"] == "struct":
        return f"struct<{','.join(':'.join((part['name'], type_text(part['type']))) for part in type_['fields'])}>"
    if type_["type"] == "array":
        return f"array<{type_text(type_['elementType'])}>"
    return f"map<{type_text(type_['keyType'])},{type_text(type_['valueType'])}>"


def _flat(text: str) -> str:
    """The text in one line: some catalogs hold no line breaks."""
    return " ".join(text.split())
