"""A schema registry of Confluent's API: what the id of a schema means, and which schema a topic's records have."""

import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import requests
from urllib3.exceptions import HTTPError

from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import DEFAULT_KIND, RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.errors import RegistryError
from lakehouse.errors.time_limit import in_time
from lakehouse.settings import Settings
from lakehouse.settings.registry_address import registry_url

_CONNECT, _READ, _ANSWER = 3.0, 5.0, 10.0  # seconds to connect, without a byte, and for one answer
_PATIENCE, _PAUSE = 15.0, 0.5  # seconds for all that one talk waits: a registry that is started again is waited for
_MOST_BYTES = 8 << 20  # of an answer: what is longer is none
_MOST_REFERENCES = 200
_NO_SCHEMA = 40403
_NOT_THERE = range(40400, 40500)  # what a registry says of a subject, or a version of it, that it has not
_FORBIDDEN = 403
_REFUSALS, _INCOMPATIBLE, _PASSING = (401, _FORBIDDEN), 409, (429, 500, 502, 503, 504)
_TYPE = "application/vnd.schemaregistry.v1+json"
_TRUST = "Set LAKEHOUSE_REGISTRY_CA_FILE to the authority that signed it."
_URL = "Correct LAKEHOUSE_REGISTRY_URL: it is what stands before /subjects and /schemas."
_RIGHTS = "Correct LAKEHOUSE_REGISTRY_USERNAME and LAKEHOUSE_REGISTRY_PASSWORD, or LAKEHOUSE_REGISTRY_TOKEN."
_COMPATIBLE = "Nothing was sent: give new fields defaults, or change what the registry asks of this subject."
_LATER = "Start it (our own: lakehouse up registry), or correct LAKEHOUSE_REGISTRY_URL; nothing was written."
_UNANSWERED = (requests.exceptions.RequestException, HTTPError, OSError)
T = TypeVar("T")


class SchemaRefusedError(RegistryError):
    """The registry does not let us read a schema; others perhaps."""


class Registry:
    """One talk with the registry of the settings: what it said of a version of a subject is not asked for twice.

    Each question raises ``RegistryError`` where nobody answers in time, where we are refused, and where what answers
    is no registry.
    """

    def __init__(self, settings: Settings, patience: float | None = None) -> None:
        self._url = registry_url(settings)
        self._patience = _PATIENCE if patience is None else patience
        self._versions: dict[tuple[str, int], Mapping[str, Any]] = {}
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy and no password of this machine's: what counts are the settings
        self._session.headers["Accept"] = f"{_TYPE}, application/json"
        if settings.registry_ca_file:
            self._session.verify = str(settings.registry_ca_file)
        if settings.registry_token:
            self._session.headers["Authorization"] = f"Bearer {settings.registry_token.get_secret_value()}"
        elif settings.registry_username and settings.registry_password:
            pair = f"{settings.registry_username}:{settings.registry_password.get_secret_value()}"
            self._session.headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"

    def close(self) -> None:
        """End the talk."""
        self._session.close()

    def require_answer(self) -> str:
        """Ask for something that every registry tells, and return where that was."""
        self._require(self._ask("GET", "schemas/types"), list)
        return self._url

    def schema(self, schema_id: int, kind: str | None = DEFAULT_KIND) -> RegisteredSchema | None:
        """The schema of an id, ``None`` if the registry knows no such id.

        Only one of this ``kind`` comes with the schemas that it refers to: no other is of use to who asks. Raises
        ``UnusableSchemaError`` if one of these is missing, and ``SchemaRefusedError`` if we may not read it.
        """
        told = self._ask("GET", f"schemas/ids/{schema_id}", missing=(_NO_SCHEMA,))
        return None if told is None else self._registered(told, kind)

    def newest(self, subject: str) -> int | None:
        """The id of the newest schema of a subject, ``None`` where it has none."""
        told = self._ask("GET", f"subjects/{quote(subject, safe='')}/versions/latest", missing=_NOT_THERE)
        return None if told is None else self._part(told, "id", int)

    def register(self, subject: str, text: str, kind: str = DEFAULT_KIND) -> int:
        """Register a schema as the newest version of a subject and return its id; a second time, that of the first.

        Raises ``RegistryError`` where it is not compatible with those before it, and where it is no schema.
        """
        sent = {"schema": text, "schemaType": kind}
        return self._part(self._ask("POST", f"subjects/{quote(subject, safe='')}/versions", sent), "id", int)

    def _registered(self, told: Any, usable: str | None) -> RegisteredSchema:
        text = self._part(told, "schema", str)
        kind = str(told.get("schemaType") or DEFAULT_KIND)[:40]
        references = self._references(told, {}).values() if kind == usable else ()
        return RegisteredSchema(text, tuple(references), kind)

    def _references(self, told: Any, known: dict[tuple[str, int], str]) -> dict[tuple[str, int], str]:
        """The schemas that one refers to, each after those that it refers to itself."""
        for each in self._require(told.get("references") or [], list):
            place = self._part(each, "subject", str), self._part(each, "version", int)
            if known.get(place):
                continue
            if place in known:
                raise UnusableSchemaError(f"{place[0]} refers to itself")
            if len(known) >= _MOST_REFERENCES:
                raise UnusableSchemaError(f"it refers to more than {_MOST_REFERENCES} schemas")
            known[place] = ""
            found = self._version(*place)
            self._references(found, known)
            del known[place]
            known[place] = self._part(found, "schema", str)
        return known

    def _version(self, subject: str, version: int) -> Mapping[str, Any]:
        if (subject, version) not in self._versions:
            path = f"subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            told = self._ask("GET", path, missing=_NOT_THERE)
            if told is None:
                raise UnusableSchemaError(f"it refers to version {version} of {subject}, which is not there")
            self._versions[subject, version] = self._require(told, dict)
        return self._versions[subject, version]

    def _ask(self, method: str, path: str, sent: Any = None, missing: range | tuple[int, ...] = ()) -> Any:
        """One answer, ``None`` for one of the codes of what is missing; asked again while nobody answers."""
        while True:
            began = time.monotonic()
            try:
                status, body = self._in_time(method, path, None if sent is None else json.dumps(sent))
                if status not in _PASSING:
                    return self._understood(path, status, body, missing)
                fact = f"The schema registry answers with {status} to {path}"
            except requests.exceptions.SSLError as error:
                raise self._error(f"The schema registry is not trusted: {_shown(error)}", _TRUST) from None
            except (requests.exceptions.InvalidHeader, ValueError):  # its text would tell the secret
                raise self._error(
                    "The schema registry cannot be asked with these settings", f"{_URL} {_RIGHTS}"
                ) from None
            except _UNANSWERED as error:
                fact = f"The schema registry cannot be reached: {_shown(error)}"
            if self._patience < _PAUSE:
                raise self._error(fact, _LATER)
            time.sleep(_PAUSE)
            self._patience -= time.monotonic() - began

    def _in_time(self, method: str, path: str, sent: str | None) -> tuple[int, bytes]:
        """One request, with a limit for all of it: a client's own begins anew with each byte of a header."""
        return in_time(lambda: self._once(method, path, sent), _CONNECT + _READ + _ANSWER)

    def _once(self, method: str, path: str, sent: str | None) -> tuple[int, bytes]:
        """One request, and all of its answer within a limit of time, however slowly it drips."""
        began = time.monotonic()
        answer = self._session.request(
            method,
            f"{self._url}/{path}",
            data=sent,
            headers={} if sent is None else {"Content-Type": _TYPE},
            timeout=(_CONNECT, _READ),
            stream=True,
        )
        with answer:
            body = b""
            while part := answer.raw.read1(65_536, decode_content=True):
                body += part
                if len(body) > _MOST_BYTES or time.monotonic() - began > _ANSWER:
                    raise OSError(f"an answer of more than {_MOST_BYTES >> 20} MiB, or {_ANSWER:.0f} seconds")
            return answer.status_code, body

    def _understood(self, path: str, status: int, body: bytes, missing: range | tuple[int, ...]) -> Any:
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            told = None
        code = told.get("error_code") if isinstance(told, dict) else None
        if status == 200 and told is not None:
            return told
        if code in missing and status not in _REFUSALS:
            return None
        said = f": {str(told.get('message') or '')[:300]}" if isinstance(told, dict) else ""
        if status in _REFUSALS:
            kind = SchemaRefusedError if status == _FORBIDDEN else RegistryError
            raise kind(f"The schema registry refuses {path}, with {status}{said}", where=self._url, action=_RIGHTS)
        if status == _INCOMPATIBLE:
            raise self._error(f"The schema is not compatible with those before it{said}", _COMPATIBLE)
        if code is not None:
            raise self._error(f"The schema registry answers with {status} to {path}{said}", "See what it says of it.")
        raise self._error(f"What answers with {status} there is no schema registry", _URL)

    def _part(self, told: Any, name: str, kind: type[T]) -> T:
        return self._require(told.get(name) if isinstance(told, dict) else None, kind)

    def _require(self, told: Any, kind: type[T]) -> T:
        if not isinstance(told, kind):
            raise self._error("What answers there is no schema registry", _URL)
        return told

    def _error(self, fact: str, action: str) -> RegistryError:
        return RegistryError(fact, where=self._url, action=action)


def _shown(error: BaseException) -> str:
    """The innermost cause in one short line, without what clients say of their pools."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error)[:200]


def writer_schema_of(talk: Registry, schema_id: int, form: Format) -> WriterSchema | None:
    """The schema of an id in the form by which a format decodes, ``None`` if the registry knows no such id.

    Raises as ``Registry.schema``, and ``UnusableSchemaError`` if the format cannot use it.
    """
    registered = talk.schema(schema_id, form.schema_kind)
    return None if registered is None else form.writer_schema(registered)


@contextmanager
def registry(settings: Settings) -> Iterator[Registry]:
    """A talk with the registry of the settings; ``RegistryError`` where none is configured."""
    talk = Registry(settings)
    try:
        yield talk
    finally:
        talk.close()
