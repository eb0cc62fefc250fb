"""Random histories of a table of Avro records, with a registry that is sometimes away or answers a wrong schema.

The model is the model of every keyed table, because the result does not depend on the format of the records.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from lakehouse.declaration import Avro, StreamTable
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.errors import RegistryError
from lakehouse.ingest import batches
from lakehouse.kafka import registry_client
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.registries import body, register
from lakehouse_tests.helpers.histories.histories import FEW_LETTERS, Histories
from lakehouse_tests.helpers.histories.model_values import Rules
from lakehouse_tests.helpers.histories.surroundings import PLACEHOLDER, Letter, declare_table
from lakehouse_tests.helpers.tables.tables import redeclare

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
    """A letter in Avro, with the schema of its sender."""

    schema_id: int = 0
    as_text: bool = True
    fields: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def value(self) -> bytes | None:
        latitude, longitude, hour = self.key
        time: Any = f"{hour:%Y-%m-%dT%H:%M}" if self.as_text else hour
        fields = {"latitude": float(latitude), "longitude": float(longitude), "time": time}
        null = PLACEHOLDER if self.without == "placeholder" else None
        fields |= {"temperature_2m": null if self.temperature is None else self.temperature} | (
            {} if self.as_text else {"station": "south"}
        )
        framed_record = add_frame(self.schema_id, body(AS_TEXT if self.as_text else AS_TIME, fields))
        spoiled_records = {
            "tombstone": None,
            "truncated": framed_record[:-1] if self.temperature is None else framed_record[:-3],
            "wrong_magic": b"{" + framed_record[1:],
            "unknown_schema": add_frame(UNKNOWN, framed_record[5:]),
        }
        return spoiled_records[self.malformed] if self.malformed else framed_record


def _without_missing_fields(letter: Letter) -> dict[str, Any]:
    """Replace a missing field by null, because an Avro record has every field of its schema."""
    return {"without": "null" if letter.without == "missing" else letter.without}


class AvroHistories(Histories):
    """One new table of Avro records and its topic; a subclass sets ``parts``."""

    @initialize(sent_letters=FEW_LETTERS)
    def begin(self, sent_letters: list[Letter]) -> None:
        Histories.begin(self)
        self.ids = {True: register(self.settings, self.table, AS_TEXT)}
        self.as_text = True
        self.send_and_merge(sent_letters, 0, None)

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return replace(declare_table(rules, like), format=Avro(), where=None)

    @rule(sent_letters=FEW_LETTERS, partition=st.integers(0, 3))
    def send(self, sent_letters: list[Letter], partition: int) -> None:
        fixed = dict(schema_id=self.ids[self.as_text], as_text=self.as_text, is_other_type=False)
        avro_letters = [
            AvroLetter(
                **{
                    **vars(letter),
                    "malformed": REASONS.get(letter.malformed or ""),
                    **fixed,
                    **_without_missing_fields(letter),
                }
            )
            for letter in sent_letters
        ]
        self.deliver(avro_letters, partition)

    @rule()
    def senders_change_their_schema(self) -> None:
        self.as_text = not self.as_text
        if self.as_text not in self.ids:
            self.ids[self.as_text] = self._register_elsewhere(AS_TIME)

    @precondition(lambda self: self.model.now.progress)
    @rule(sent_letters=FEW_LETTERS, answers_wrongly=st.booleans())
    def the_registry_is_away_or_another(self, sent_letters: list[Letter], answers_wrongly: bool) -> None:
        """A batch that needs the registry fails without any effect; the next batch continues."""
        valid_letters = [letter for letter in sent_letters if not letter.malformed]
        if not valid_letters:
            return
        self.send_and_merge(valid_letters, 0, None)  # the meaning of its schema is cached
        self.send(valid_letters, 0)
        version = self.tables.version
        settings = self.settings
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(registry_client, "_PATIENCE", 0.0)
            if answers_wrongly:
                read_schema, other_id = registry_client.Registry.schema, self._register_other_type()
                patch.setattr(
                    registry_client.Registry, "schema", lambda client, _, kind: read_schema(client, other_id, kind)
                )
            else:
                settings = Settings(**{**settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
            with pytest.raises(RegistryError):
                batches.merge_all(TableContext(self.spark, settings, self.table))
        assert self.tables.version == version
        self.merge(None)

    def _register_other_type(self) -> int:
        fields = [*_NUMBERS, {"name": "time", "type": "long"}, _TEMPERATURE]
        return self._register_elsewhere({**AS_TEXT, "fields": fields})

    def _register_elsewhere(self, schema: dict[str, Any]) -> int:
        """Register a schema under another subject, because the schema of the topic is not compatible with it."""
        return register(self.settings, redeclare(self.table, topic=f"{self.table.topic}-{len(str(schema))}"), schema)
