"""A schema registry of Confluent's API: what the id of a schema means, and which schema a topic's records have."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import requests

from lakehouse.declaration.avro import WriterSchema
from lakehouse.errors import RegistryError
from lakehouse.settings import Settings
from lakehouse.settings.registry import registry_url
from lakehouse.topic.schemas import UnusableSchemaError, writer_schema

_CONNECT, _READ = 3.0, 5.0  # seconds for one answer
_PATIENCE, _PAUSE = 15.0, 0.5  # seconds: a registry that is started again is waited for
_MOST_BYTES = 8 << 20  # of an answer: what is longer is none
_MOST_REFERENCES = 200
_NO_SCHEMA, _NO_SUBJECT, _INCOMPATIBLE = 40403, (40401, 40402), 409
_TYPE = "application/vnd.schemaregistry.v1+json"
_PASSING = (429, 500, 502, 503, 504)


class Registry:
    """One talk with the registry of the settings: nothing that it said is asked for twice."""

    def __init__(self, settings: Settings, patience: float = _PATIENCE) -> None:
        self._url = registry_url(settings)
        self._patience = patience
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy and no password of this machine's: what counts are the settings
        self._session.headers["Accept"] = f"{_TYPE}, application/json"
        if settings.registry_ca_file:
            self._session.verify = str(settings.registry_ca_file)
        if settings.registry_token:
            self._session.headers["Authorization"] = f"Bearer {settings.registry_token.get_secret_value()}"
        elif settings.registry_username and settings.registry_password:
            self._session.auth = (settings.registry_username, settings.registry_password.get_secret_value())

    def close(self) -> None:
        """End the talk."""
        self._session.close()

    def require_answer(self) -> str:
        """Ask for something that is always there, and return where that was; raises ``RegistryError``."""
        self._ask("GET", "subjects/_/versions/latest", missing=_NO_SUBJECT)
        return self._url

    def schema(self, schema_id: int) -> WriterSchema | None:
        """What an id means, ``None`` where the registry knows no such id.

        Raises ``UnusableSchemaError`` where that is no schema of Avro, ``RegistryError`` where the registry does not
        answer in time, refuses us, or is none.
        """
        told = self._ask("GET", f"schemas/ids/{schema_id}", missing=(_NO_SCHEMA,))
        return None if told is None else self._writer_schema(told)

    def newest(self, subject: str) -> int | None:
        """The id of the newest schema of a subject, ``None`` where it has none; raises as ``schema``."""
        told = self._ask("GET", f"subjects/{quote(subject, safe='')}/versions/latest", missing=_NO_SUBJECT)
        return None if told is None else int(told["id"])

    def register(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Register a schema as the newest version of a subject and return its id; a second time, that of the first.

        Raises ``RegistryError`` where it is not compatible with those before it, and where it is no schema.
        """
        told = self._ask("POST", f"subjects/{quote(subject, safe='')}/versions", {"schema": text, "schemaType": kind})
        return int((told or {})["id"])

    def _writer_schema(self, told: Mapping[str, Any]) -> WriterSchema:
        kind = told.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise UnusableSchemaError(f"it is a schema of {str(kind)[:40]}, not of Avro")
        return writer_schema(str(told["schema"]), list(self._references(told, {}).values()))

    def _references(self, told: Mapping[str, Any], known: dict[tuple[str, int], str]) -> dict[tuple[str, int], str]:
        """The schemas that one refers to, each after those that it refers to itself."""
        for each in told.get("references") or []:
            place = str(each["subject"]), int(each["version"])
            if known.get(place):
                continue
            if place in known:
                raise UnusableSchemaError(f"{place[0]} refers to itself")
            if len(known) >= _MOST_REFERENCES:
                raise UnusableSchemaError(f"it refers to more than {_MOST_REFERENCES} schemas")
            known[place] = ""
            found = self._ask("GET", f"subjects/{quote(place[0], safe='')}/versions/{place[1]}", missing=_NO_SUBJECT)
            if found is None:
                raise UnusableSchemaError(f"it refers to version {place[1]} of {place[0]}, which is not there")
            self._references(found, known)
            del known[place]
            known[place] = str(found["schema"])
        return known

    def _ask(
        self, method: str, path: str, sent: Mapping[str, Any] | None = None, missing: tuple[int, ...] = ()
    ) -> dict[str, Any] | None:
        """One answer, ``None`` for one of the codes of what is missing; asked again while nobody answers."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                answer = self._session.request(
                    method,
                    f"{self._url}/{path}",
                    data=None if sent is None else json.dumps(sent),
                    headers={} if sent is None else {"Content-Type": _TYPE},
                    timeout=(_CONNECT, _READ),
                    stream=True,
                )
                with answer:
                    body = answer.raw.read(_MOST_BYTES + 1, decode_content=True)
                if answer.status_code not in _PASSING:
                    return self._understood(answer.status_code, body, missing)
                fact = f"The schema registry answers with {answer.status_code}"
            except requests.exceptions.SSLError as error:
                raise self._error("The schema registry is not trusted", _shown(error), _TRUST) from None
            except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
                raise self._error("The address of the schema registry cannot be used", _shown(error), _URL) from None
            except (requests.exceptions.RequestException, OSError, ValueError) as error:
                fact = f"The schema registry cannot be reached: {_shown(error)}"
            if time.monotonic() + _PAUSE > deadline:
                raise self._error(fact, "", "Start it, or correct LAKEHOUSE_REGISTRY_URL; nothing was written.")
            time.sleep(_PAUSE)

    def _understood(self, status: int, body: bytes, missing: tuple[int, ...]) -> dict[str, Any] | None:
        try:
            told = json.loads(body)
        except ValueError:
            told = None
        code = told.get("error_code") if isinstance(told, dict) else None
        if status == 200 and isinstance(told, dict):
            return told
        if code in missing:
            return None
        said = str(told.get("message") or "")[:300] if isinstance(told, dict) else ""
        if status in (401, 403):
            raise self._error(f"The schema registry refuses us, with {status}", said, _REFUSED)
        if status == _INCOMPATIBLE:
            raise self._error("The schema is not compatible with those before it", said, _COMPATIBLE)
        if code is not None:
            raise self._error(f"The schema registry answers with {status}", said, "See what it says of it.")
        raise self._error(f"What answers with {status} there is no schema registry", "", _URL)

    def _error(self, fact: str, said: str, action: str) -> RegistryError:
        return RegistryError(f"{fact}: {said}" if said else fact, where=self._url, action=action)


_TRUST = "Set LAKEHOUSE_REGISTRY_CA_FILE to the authority that signed it."
_URL = "Correct LAKEHOUSE_REGISTRY_URL: it is what stands before /subjects and /schemas."
_REFUSED = "Correct LAKEHOUSE_REGISTRY_USERNAME and LAKEHOUSE_REGISTRY_PASSWORD, or LAKEHOUSE_REGISTRY_TOKEN."
_COMPATIBLE = "Nothing was sent: give new fields defaults, or change what the registry asks of this subject."


def _shown(error: Exception) -> str:
    """The innermost cause in one short line, without what clients say of their pools."""
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return str(cause)[:200]


@contextmanager
def registry(settings: Settings) -> Iterator[Registry]:
    """A talk with the registry of the settings; ``RegistryError`` where none is configured."""
    talk = Registry(settings)
    try:
        yield talk
    finally:
        talk.close()
