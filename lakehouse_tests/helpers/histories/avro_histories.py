"""Random histories of a table of Avro records, whose schemas are in a registry that comes, goes and lies.

The model is that of any keyed table: how a record is written changes nothing of what becomes of it.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from lakehouse.declaration import Avro, StreamTable
from lakehouse.decoding.formats.framing import framed
from lakehouse.errors import RegistryError
from lakehouse.ingest import batches
from lakehouse.kafka import registry_client
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.registries import body, register
from lakehouse_tests.helpers.histories.histories import FEW, Histories
from lakehouse_tests.helpers.histories.model import Rules
from lakehouse_tests.helpers.histories.surroundings import PLACEHOLDER, Letter, declared, post

_NUMBERS = [{"name": "latitude", "type": "double"}, {"name": "longitude", "type": "double"}]
_TEMPERATURE = {"name": "temperature_2m", "type": ["null", "double"], "default": None}
AS_TEXT = {"type": "record", "name": "T", "fields": [*_NUMBERS, {"name": "time", "type": "string"}, _TEMPERATURE]}
AS_TIME: dict[str, Any] = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "station", "type": "string", "default": "north"},
        _TEMPERATURE,
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        *_NUMBERS,
    ],
}
UNKNOWN = 1_500_000_000
REASONS = {
    "tombstone": "tombstone",
    "truncated": "truncated",
    "not_an_object": "wrong_magic",
    "invalid_utf8": "unknown_schema",
}


@dataclass(frozen=True)
class AvroLetter(Letter):
    """A letter as Avro, by the schema that its sender has."""

    schema_id: int = 0
    as_text: bool = True
    fields: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def value(self) -> bytes | None:
        latitude, longitude, hour = self.key
        time: Any = f"{hour:%Y-%m-%dT%H:%M}" if self.as_text else hour
        told = {"latitude": float(latitude), "longitude": float(longitude), "time": time}
        none = PLACEHOLDER if self.without == "placeholder" else None
        told |= {"temperature_2m": none if self.temperature is None else self.temperature} | (
            {} if self.as_text else {"station": "south"}
        )
        good = framed(self.schema_id, body(AS_TEXT if self.as_text else AS_TIME, told))
        spoiled = {
            "tombstone": None,
            "truncated": good[:-1] if self.temperature is None else good[:-3],
            "wrong_magic": b"{" + good[1:],
            "unknown_schema": framed(UNKNOWN, good[5:]),
        }
        return spoiled[self.malformed] if self.malformed else good


def _without(letter: Letter) -> dict[str, Any]:
    """No field of a schema is missing: its record says null."""
    return {"without": "null" if letter.without == "missing" else letter.without}


class AvroHistories(Histories):
    """One table of Avro and its topic, from nothing; a subclass sets ``parts``."""

    @initialize(sent=FEW)
    def begin(self, sent: list[Letter]) -> None:
        Histories.begin(self)
        self.ids = {True: register(self.settings, self.table, AS_TEXT)}
        self.as_text = True
        self.send_and_merge(sent, 0, None)

    @staticmethod
    def declared(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return replace(declared(rules, like), format=Avro())

    @rule(sent=FEW, partition=st.integers(0, 3))
    def send(self, sent: list[Letter], partition: int) -> None:
        partition %= len(self.model.topic)
        how = dict(schema_id=self.ids[self.as_text], as_text=self.as_text)
        as_avro = [
            AvroLetter(**{**vars(each), "malformed": REASONS.get(each.malformed or ""), **how, **_without(each)})
            for each in sent
        ]
        self.model.topic[partition] += post(self.settings, self.table.topic, partition, list(as_avro))

    @rule()
    def senders_change_their_schema(self) -> None:
        self.as_text = not self.as_text
        if self.as_text not in self.ids:
            self.ids[self.as_text] = self._elsewhere(AS_TIME)

    @precondition(lambda self: self.model.now.progress)
    @rule(sent=FEW, lies=st.booleans())
    def the_registry_is_away_or_another(self, sent: list[Letter], lies: bool) -> None:
        """A batch that has to ask stops, and nothing of it is anywhere; the next one goes on."""
        good = [each for each in sent if not each.malformed]
        if not good:
            return
        self.send_and_merge(good, 0, None)  # what its schema means is kept
        self.send(good, 0)
        version = self.tables.version
        settings = self.settings
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(registry_client, "_PATIENCE", 0.0)
            if lies:
                real, other = registry_client.Registry.schema, self._another()
                patch.setattr(registry_client.Registry, "schema", lambda talk, _, kind: real(talk, other, kind))
            else:
                settings = Settings(**{**settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
            with pytest.raises(RegistryError):
                batches.merge_all(TableContext(self.spark, settings, self.table))
        assert self.tables.version == version
        self.merge(None)

    def _another(self) -> int:
        fields = [*_NUMBERS, {"name": "time", "type": "long"}, _TEMPERATURE]
        return self._elsewhere({**AS_TEXT, "fields": fields})

    def _elsewhere(self, schema: dict[str, Any]) -> int:
        """Register a schema that this topic's own would not be compatible with."""
        return register(self.settings, replace(self.table, topic=f"{self.table.topic}-{len(str(schema))}"), schema)
