"""Random histories of a table whose rows are elements of records, in a topic with records of another type."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from lakehouse.declaration import StreamTable
from lakehouse_tests.helpers.histories.histories import Histories
from lakehouse_tests.helpers.histories.model import Model
from lakehouse_tests.helpers.histories.model_values import Record, Rules
from lakehouse_tests.helpers.histories.surroundings import HOURS, IS_WEATHER, MALFORMED, Letter, declare_table, letters

OF_AN_ELEMENT = "not_an_object"
"""The only reason of a malformed letter that does not spoil the packet around it."""


@dataclass(frozen=True)
class Packet:
    """A record to send whose elements are letters; one of another type is not for the table."""

    letters: tuple[Letter, ...]
    is_other_type: bool
    has_no_array: bool

    @property
    def _malformed(self) -> str | None:
        reasons = [letter.malformed for letter in self.letters if letter.malformed not in (None, OF_AN_ELEMENT)]
        return reasons[0] if reasons else None

    @property
    def broker_time(self) -> datetime:
        return self.letters[0].broker_time if self.letters else HOURS[0]

    @property
    def value(self) -> bytes | None:
        if self._malformed:
            return MALFORMED[self._malformed]
        fields: dict[str, Any] = {"type": "other" if self.is_other_type else "weather"}
        if self.letters or not self.has_no_array:
            fields["readings"] = [json.loads(letter.value or b"") for letter in self.letters]
        return json.dumps(fields).encode()

    def rows(self, partition: int, offset: int) -> tuple[Record, ...]:
        whole = Record(partition, offset, self.broker_time, None, None, malformed=self._malformed, place=(None,))
        if self._malformed:
            return (whole,)
        if self.is_other_type:
            return (replace(whole, filtered=True),)
        elements = enumerate(self.letters)
        return tuple(letter.as_record(partition, offset, self.broker_time, (index,)) for index, letter in elements)


_packets = st.builds(
    Packet, st.lists(letters, max_size=4).map(tuple), st.sampled_from([False] * 4 + [True]), st.booleans()
)
PACKETS = st.lists(_packets, min_size=1, max_size=5)


class ElementHistories(Histories):
    """One new table of elements and its topic, without base rows; a subclass sets ``parts``."""

    reload_base = None  # type: ignore[assignment]

    new_model = partial(Model, has_elements=True)

    @initialize(packets=PACKETS)
    def begin(self, packets: list[Packet]) -> None:
        Histories.begin(self)
        self.send_and_merge(packets, 0, None)

    @staticmethod
    def make_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
        return replace(declare_table(rules, like), base=None, rows_from="readings", where=IS_WEATHER)

    @rule(packets=PACKETS, partition=st.integers(0, 3))
    def send(self, packets: list[Packet], partition: int) -> None:
        self.deliver(packets, partition)

    @rule(packets=PACKETS, partition=st.integers(0, 3), size=st.sampled_from([None, None, 3, 5]))
    def send_and_merge(self, packets: list[Packet], partition: int, size: int | None) -> None:
        self.send(packets, partition)
        self.merge(size)
