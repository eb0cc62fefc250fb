"""Tables in a Unity Catalog, by its REST interface, which creates, reads and deletes tables, but updates none."""

import json
import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from lakehouse.catalogs.registration import RECREATED, TABLE_ID, Catalog, RegisteredColumn, Registration, read_format
from lakehouse.errors import CatalogError, CatalogUnreachableError
from lakehouse.errors.causes import in_time
from lakehouse.settings.store import Store

_SECONDS = 10.0  # for one answer
_KIND = {"table_type": "EXTERNAL", "data_source_format": "DELTA"}
_NOT_FOUND, _REFUSALS, _REDIRECTS = 404, (401, 403), 300
_RIGHTS = "Set LAKEHOUSE_CATALOG_TOKEN to a token with USE CATALOG, USE SCHEMA, CREATE TABLE and CREATE EXTERNAL TABLE."
_LATER = "The table itself is not affected. Correct LAKEHOUSE_CATALOG, or run it again later."


class UnityCatalog(Catalog):
    """A schema of a Unity Catalog. The server alone decides the owner of a table."""

    def __init__(self, server: str, schema: str, token: str | None) -> None:
        self.place = f"{server}/{schema}"
        self._tables, self._schema, self._token = f"{server}/api/2.1/unity-catalog/tables", schema, token
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy or password of this machine: only the settings count
        self._session.verify = os.environ.get("SSL_CERT_FILE") or True
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def fit(self, registration: Registration) -> Registration:
        """Return it without an owner."""
        return replace(registration, owner=None)

    def read(self, name: str) -> Registration | None:
        """Return what the schema has under a name; ``None`` if it has no such table, or if there is no such schema."""
        table = self._ask("GET", name)
        if table is None:
            return None
        columns = sorted(table.get("columns") or (), key=lambda column: column.get("position", 0))
        own_columns = tuple(
            RegisteredColumn(c["name"], c.get("type_text", ""), c.get("comment") or "", c.get("nullable", True))
            for c in columns
        )
        location, doc = Store(table.get("storage_location") or "").catalog_location, table.get("comment") or ""
        id_ = (table.get("properties") or {}).get(TABLE_ID, "")
        return Registration(name, location, own_columns, doc, None, id_, read_format(table, _KIND), table)

    def create(self, registration: Registration) -> None:
        """Create the table; ``CatalogError`` if the schema is missing, or if another table has the location."""
        self._post(self._body(registration))

    def replace(self, registration: Registration, stored_table: Registration) -> str:
        """Delete the table and create it again, or the former one if that is refused. The next run creates the rest."""
        body = self._body(registration)
        self._ask("DELETE", registration.name)
        try:
            self._post(body)
        except CatalogError as error:
            fate = "The former registration was created again, but grants on the table are lost"
            try:
                self._post({name: value for name, value in stored_table.answer.items() if name in body})
            except CatalogError:
                fate = "The table may now have no registration, and grants on it are lost"
            raise type(error)(f"{error.what}. {fate}", where=self.place, action=error.action) from None
        return RECREATED

    def _body(self, registration: Registration) -> dict[str, Any]:
        catalog, _, schema = self._schema.partition(".")
        names = {"name": registration.name, "catalog_name": catalog, "schema_name": schema}
        columns = [_column(place, column) for place, column in enumerate(registration.columns)]
        facts = {"comment": registration.doc, "properties": {TABLE_ID: registration.table_id}, "columns": columns}
        return names | _KIND | facts | {"storage_location": registration.location}

    def _post(self, body: dict[str, Any]) -> None:
        if self._ask("POST", body=body) is None:
            action = f"Create the catalog {body['catalog_name']} and its schema {body['schema_name']} there."
            raise CatalogError(f"Unity Catalog has no schema {self._schema}", where=self.place, action=action)

    def _ask(self, method: str, name: str = "", body: Any = None) -> Any:
        """Return the answer to one request; ``None`` if it says that something does not exist."""
        address = f"{self._tables}/{self._schema}.{name}" if name else self._tables
        # no redirect is followed: another address must not get the token
        send = partial(self._session.request, method, address, json=body, allow_redirects=False)
        try:
            answer = in_time(lambda: send(timeout=_SECONDS), 2 * _SECONDS)
        except (requests.exceptions.RequestException, HTTPError, OSError, ValueError) as error:
            is_of_token = isinstance(error, (requests.exceptions.InvalidHeader, UnicodeError))  # whose text reveals it
            text, action = (type(error).__name__, _RIGHTS) if is_of_token else (str(error)[:300], _LATER)
            what = f"Unity Catalog cannot be reached: {text}"
            raise CatalogUnreachableError(what, where=self.place, action=action) from None
        if answer.status_code == _NOT_FOUND:
            return None
        content: Any = {}
        with suppress(ValueError):  # a deletion has no content, and another server other than JSON
            content = answer.json()
        is_valid = isinstance(content, dict) and (content or method == "DELETE")
        if answer.status_code < _REDIRECTS and is_valid:
            return content
        message = str(content.get("message", "")) if isinstance(content, dict) else ""
        message = message.replace(self._token or "\0", "***")[:300]
        action = _RIGHTS if answer.status_code in _REFUSALS else _LATER
        what = f"Unity Catalog answers with {answer.status_code}: {message}"
        raise CatalogError(what, where=self.place, action=action)


def _column(position: int, column: RegisteredColumn) -> dict[str, Any]:
    kind = type_ if isinstance(type_ := column.field["type"], str) else type_["type"]
    type_name = "INT" if kind == "integer" else kind.partition("(")[0].upper()
    types = {"type_name": type_name, "type_text": column.type, "type_json": json.dumps(column.field)}
    return types | {"name": column.name, "position": position, "nullable": column.nullable, "comment": column.comment}
