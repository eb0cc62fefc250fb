"""Client of a schema registry with Confluent's API: the schema of an id, and the schema of a topic's records."""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import requests
from urllib3.exceptions import HTTPError

from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import DEFAULT_KIND, RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.errors import RegistryError
from lakehouse.errors.causes import in_time
from lakehouse.settings import Settings
from lakehouse.settings.addresses import registry_url

_CONNECT, _READ, _ANSWER = 3.0, 5.0, 10.0  # seconds to connect, without a byte, and for one answer
_PATIENCE, _PAUSE = 15.0, 0.5  # seconds that one client waits in total, so that a restarted registry does not fail it
_MAX_BYTES = 8 << 20  # of an answer
_MAX_REFERENCES = 200
_TOO_MANY_REFERENCES = f"it refers to more than {_MAX_REFERENCES} schemas"
_NO_SCHEMA = 40403
_NOT_FOUND = range(40400, 40500)  # error codes for a missing subject or version
_FORBIDDEN = 403
_REFUSALS, _INCOMPATIBLE, _TEMPORARY = (401, _FORBIDDEN), 409, (429, 500, 502, 503, 504)
_TYPE = "application/vnd.schemaregistry.v1+json"
_TRUST = "Set LAKEHOUSE_REGISTRY_CA_FILE to the authority that signed it."
_URL = "Correct LAKEHOUSE_REGISTRY_URL: it is the part before /subjects and /schemas."
_RIGHTS = "Correct LAKEHOUSE_REGISTRY_USERNAME and LAKEHOUSE_REGISTRY_PASSWORD, or LAKEHOUSE_REGISTRY_TOKEN."
_COMPATIBLE = "Nothing was sent. Give new fields defaults, or change the compatibility rule of this subject."
_TRY_LATER = (
    "Nothing was written. Start it (the embedded one with: lakehouse up registry), or correct LAKEHOUSE_REGISTRY_URL."
)
_NO_ANSWER_ERRORS = (requests.exceptions.RequestException, HTTPError, OSError)
T = TypeVar("T")


class SchemaRefusedError(RegistryError):
    """The registry does not permit us to read a schema; it may permit others."""


class Registry:
    """Client of the registry of the settings; it requests each version of a subject only once, also a missing one.

    Each request raises ``RegistryError`` if there is no answer in time, if the registry refuses it, and if the server
    is not a schema registry.
    """

    def __init__(self, settings: Settings, patience: float | None = None) -> None:
        self._url = registry_url(settings)
        self._patience = _PATIENCE if patience is None else patience
        self._versions: dict[tuple[str, int], Mapping[str, Any] | None] = {}
        self.request_count = 0
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy or password of this machine: only the settings count
        self._session.headers["Accept"] = f"{_TYPE}, application/json"
        if settings.registry_ca_file:
            self._session.verify = str(settings.registry_ca_file)
        if settings.registry_token:
            self._session.headers["Authorization"] = f"Bearer {settings.registry_token.get_secret_value()}"
        elif settings.registry_username and settings.registry_password:
            pair = f"{settings.registry_username}:{settings.registry_password.get_secret_value()}"
            self._session.headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def require_answer(self) -> str:
        """Send a request that every registry answers, and return the address of the registry."""
        self._require(self._ask("GET", "schemas/types"), list)
        return self._url

    def schema(self, schema_id: int, kind: str | None = DEFAULT_KIND) -> RegisteredSchema | None:
        """Return the schema of an id, ``None`` if the registry has no such id.

        Only a schema of this ``kind`` comes with the schemas that it refers to: the caller cannot use another kind.
        Raises ``UnusableSchemaError`` if one of these is missing, and ``SchemaRefusedError`` if we may not read it.
        """
        response = self._ask("GET", f"schemas/ids/{schema_id}", missing_codes=(_NO_SCHEMA,))
        return None if response is None else self._parse_schema(response, kind)

    def newest_id(self, subject: str) -> int | None:
        """Return the id of the newest schema of a subject, ``None`` if it has none."""
        response = self._ask("GET", f"subjects/{quote(subject, safe='')}/versions/latest", missing_codes=_NOT_FOUND)
        return None if response is None else self._field(response, "id", int)

    def register(self, subject: str, text: str, kind: str = DEFAULT_KIND) -> int:
        """Register a schema as the newest version of a subject and return its id; a repeated call returns the same id.

        Raises ``RegistryError`` if it is not compatible with the schemas before it, and if it is not a valid schema.
        """
        request = {"schema": text, "schemaType": kind}
        return self._field(self._ask("POST", f"subjects/{quote(subject, safe='')}/versions", request), "id", int)

    def _parse_schema(self, response: Any, usable_kind: str | None) -> RegisteredSchema:
        text = self._field(response, "schema", str)
        kind = str(response.get("schemaType") or DEFAULT_KIND)[:40]
        if kind != usable_kind:
            return RegisteredSchema(text, (), kind)
        names = set[tuple[str, tuple[str, int]]]()
        texts = self._read_references(response, {}, names)
        named_references = tuple(sorted((name, texts[version]) for name, version in names))
        return RegisteredSchema(text, tuple(texts.values()), kind, named_references)

    def _read_references(
        self, response: Any, texts: dict[tuple[str, int], str], names: set[tuple[str, tuple[str, int]]]
    ) -> dict[tuple[str, int], str]:
        """Return the schemas that a schema refers to, each after those that it refers to itself; add their names."""
        references = self._require(response.get("references") or [], list)
        if len(references) > _MAX_REFERENCES:
            raise UnusableSchemaError(_TOO_MANY_REFERENCES)
        for reference in references:
            version = self._field(reference, "subject", str), self._field(reference, "version", int)
            names.add((self._field(reference, "name", str), version))
            if texts.get(version):
                continue
            if version in texts:
                raise UnusableSchemaError(f"{version[0]} refers to itself")
            if len(texts) >= _MAX_REFERENCES:
                raise UnusableSchemaError(_TOO_MANY_REFERENCES)
            texts[version] = ""
            referenced_schema = self._read_version(*version)
            self._read_references(referenced_schema, texts, names)
            del texts[version]
            texts[version] = self._field(referenced_schema, "schema", str)
        return texts

    def _read_version(self, subject: str, version: int) -> Mapping[str, Any]:
        if (subject, version) not in self._versions:
            path = f"subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            response = self._ask("GET", path, missing_codes=_NOT_FOUND)
            self._versions[subject, version] = None if response is None else self._require(response, dict)
        answer = self._versions[subject, version]
        if answer is None:
            raise UnusableSchemaError(f"it refers to version {version} of {subject}, which does not exist")
        return answer

    def _ask(self, method: str, path: str, request: Any = None, missing_codes: range | tuple[int, ...] = ()) -> Any:
        """Return one answer, ``None`` for one of ``missing_codes``; repeat the request while there is no answer."""
        while True:
            start_time = time.monotonic()
            try:
                text = None if request is None else json.dumps(request)
                # all of it has a limit: a client's own limit restarts with each byte of a header
                status, body = in_time(partial(self._send, method, path, text), _CONNECT + _READ + _ANSWER)
                if status not in _TEMPORARY:
                    return self._parse_answer(path, status, body, missing_codes)
                fact = f"The schema registry answers with {status} to {path}"
            except requests.exceptions.SSLError as error:
                raise self._error(f"The schema registry is not trusted: {_innermost_message(error)}", _TRUST) from None
            except (requests.exceptions.InvalidHeader, ValueError):  # its text would reveal the secret
                fact = "No valid request to the schema registry can be built from these settings"
                raise self._error(fact, f"{_URL} {_RIGHTS}") from None
            except _NO_ANSWER_ERRORS as error:
                fact = f"The schema registry cannot be reached: {_innermost_message(error)}"
            if self._patience < _PAUSE:
                raise self._error(fact, _TRY_LATER)
            time.sleep(_PAUSE)
            self._patience -= time.monotonic() - start_time

    def _send(self, method: str, path: str, request: str | None) -> tuple[int, bytes]:
        """Send one request and read its whole answer within a time limit, even if the answer arrives slowly."""
        start_time = time.monotonic()
        self.request_count += 1
        answer = self._session.request(
            method,
            f"{self._url}/{path}",
            data=request,
            headers={} if request is None else {"Content-Type": _TYPE},
            timeout=(_CONNECT, _READ),
            stream=True,
        )
        with answer:
            body = b""
            while chunk := answer.raw.read1(65_536, decode_content=True):
                body += chunk
                if len(body) > _MAX_BYTES or time.monotonic() - start_time > _ANSWER:
                    raise OSError(f"an answer of more than {_MAX_BYTES >> 20} MiB, or {_ANSWER:.0f} seconds")
            return answer.status_code, body

    def _parse_answer(self, path: str, status: int, body: bytes, missing_codes: range | tuple[int, ...]) -> Any:
        try:
            response = json.loads(body)
        except (ValueError, RecursionError):
            response = None
        code = response.get("error_code") if isinstance(response, dict) else None
        if status == 200 and response is not None:
            return response
        if code in missing_codes and status not in _REFUSALS:
            return None
        message = f": {str(response.get('message') or '')[:300]}" if isinstance(response, dict) else ""
        if status in _REFUSALS:
            error_class = SchemaRefusedError if status == _FORBIDDEN else RegistryError
            fact = f"The schema registry refuses {path}, with {status}{message}"
            raise error_class(fact, where=self._url, action=_RIGHTS)
        if status == _INCOMPATIBLE:
            raise self._error(f"The schema is not compatible with the schemas before it{message}", _COMPATIBLE)
        if code is not None:
            fact = f"The schema registry answers with {status} to {path}{message}"
            raise self._error(fact, "See the documentation of the registry for this answer.")
        raise self._error(f"The server answers with {status} and is not a schema registry", _URL)

    def _field(self, response: Any, name: str, type_: type[T]) -> T:
        return self._require(response.get(name) if isinstance(response, dict) else None, type_)

    def _require(self, value: Any, type_: type[T]) -> T:
        if not isinstance(value, type_):
            raise self._error("The server is not a schema registry", _URL)
        return value

    def _error(self, fact: str, action: str) -> RegistryError:
        return RegistryError(fact, where=self._url, action=action)


def _innermost_message(error: BaseException) -> str:
    """Return the innermost cause in one short line, without what clients report about their connection pools."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error)[:200]


def writer_schema_of(client: Registry, schema_id: int, record_format: Format) -> WriterSchema | None:
    """Return the schema of an id in the form that a format decodes with, ``None`` if the registry has no such id.

    Raises as ``Registry.schema``, and ``UnusableSchemaError`` if the format cannot use it.
    """
    registered_schema = client.schema(schema_id, record_format.schema_kind)
    return None if registered_schema is None else record_format.writer_schema(registered_schema)


def registry(settings: Settings) -> closing[Registry]:
    """Open a client of the registry of the settings; ``RegistryError`` if none is configured."""
    return closing(Registry(settings))
