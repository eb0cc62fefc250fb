"""What a catalog has of a table, made from the table's log and its declaration, and how two of them differ."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings.store import Store
from lakehouse.storage.layout import Layout

TABLE_ID = "lakehouse.table_id"
"""The property with the id that Delta gave the table; only registrations of lakehouse have it."""
RECREATED = "It was deleted and created again in the catalog: grant again what was granted on it."
_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True)
class RegisteredColumn:
    """A column in a catalog. ``field`` is it in the schema of Delta; empty if it was read from a catalog."""

    name: str
    type: str
    comment: str
    nullable: bool = True
    field: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Registration:
    """A table in a catalog.

    ``owner`` is ``None`` if the catalog decides it. Another program wrote it if ``table_id`` is empty. ``format`` names
    what makes it unreadable as a table of Delta. ``answer`` is what the catalog answered.
    """

    name: str
    location: str
    columns: tuple[RegisteredColumn, ...]
    doc: str
    owner: str | None
    table_id: str
    format: str = "delta"
    answer: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def differences(self, stored_table: "Registration") -> list[str]:
        """Say in what another registration differs from this one, a sentence each; empty if they are equal."""
        own_facts, stored_facts = self._facts, stored_table._facts
        return [
            f"The {fact} is {stored_facts[fact]!r}, not {value!r}."
            for fact, value in own_facts.items()
            if stored_facts.get(fact, value) != value
        ]

    @property
    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"location": self.location, "table id": self.table_id, "format": self.format}
        names = ", ".join(column.name for column in self.columns)
        facts |= {"owner": self.owner, "description": self.doc, "list of columns": names}
        for column in self.columns:
            facts |= {f"type of {column.name}": column.type, f"comment of {column.name}": column.comment}
            facts[f"rule that {column.name} may be NULL"] = column.nullable
        return facts


class Catalog(ABC):
    """A catalog, which ``place`` names in errors: ``CatalogUnreachableError``, or ``CatalogError`` if it refuses."""

    place: str

    @abstractmethod
    def fit(self, registration: Registration) -> Registration:
        """Return a registration as this catalog can hold it, so that what it then returns is equal."""

    @abstractmethod
    def read(self, name: str) -> Registration | None:
        """Return what the catalog has under a name, by one request; ``None`` if it has nothing."""

    @abstractmethod
    def create(self, registration: Registration) -> None:
        """Write a registration under a name that is free."""

    @abstractmethod
    def replace(self, registration: Registration, stored_table: Registration) -> str:
        """Write it in place of one that ``read`` returned; return what to do then, empty if nothing was lost."""


@dataclass(frozen=True)
class Registrable:
    """A declared table with its owner."""

    layout: Layout
    owner: str

    def read(self) -> Registration | None:
        """Return what its newest version says, with the declared meanings; ``None`` if there is no table.

        Raises ``TableError`` if its log cannot be read.
        """
        table = open_table(self.layout.uri)
        if table is None:
            return None
        with log_failures(self.layout.uri):
            fields, table_id = json.loads(table.schema().to_json())["fields"], str(table.metadata().id)
        docs = {column.name: column.doc for column in self.layout.columns}
        columns = []
        for part in fields:
            comment = _flat(part["metadata"].get("comment") or docs.get(part["name"], ""))
            columns.append(RegisteredColumn(part["name"], type_text(part["type"]), comment, part["nullable"], part))
        location = Store(self.layout.uri).catalog_location
        return Registration(self.layout.name, location, tuple(columns), _flat(self.layout.doc), self.owner, table_id)


def read_format(facts: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say which facts of a table keep readers from taking it for one of Delta; ``delta`` if none does."""
    return ", ".join(f"{name} {facts.get(name)}" for name in wanted if facts.get(name) != wanted[name]) or "delta"


def type_text(type_: Any) -> str:
    """Return a type of Delta's schema as Spark and Hive write it."""
    if isinstance(type_, str):
        return _NAMES.get(type_, type_)
    if type_["type"] == "struct":
        return f"struct<{','.join(':'.join((part['name'], type_text(part['type']))) for part in type_['fields'])}>"
    inner_names = [name for name in ("keyType", "valueType", "elementType") if name in type_]
    return f"{type_['type']}<{','.join(type_text(type_[name]) for name in inner_names)}>"


def _flat(text: str) -> str:
    """The text in one line: some catalogs hold no control characters."""
    return " ".join("".join(character if character >= " " else " " for character in text).split())
