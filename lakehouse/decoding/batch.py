"""The records of a batch, from their bytes to their parsed values: unpacked, parsed, and without an envelope.

Two parsers may read JSON. A native one reads all records at once, and is not certain of some. The strict one reads
those again, one by one, with every digit. The steps after it are the same for both.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.conversion.raw_values import values_of_parts
from lakehouse.decoding.deletes import has_same_key, require_same_key
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.parser import Change
from lakehouse.decoding.json_parsing import Native
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MAX_SLICE_MEMORY
from lakehouse.decoding.native.layers import add_schema, find_schema, open_texts, without_schema
from lakehouse.decoding.native.parsing import inexact_values, parse_contents
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.rules import Rules, column_memory

PartArrays = Mapping[str, pa.Array]
"""The other parts of records that fields are read from, by part: binary; of a header the newest with its name."""
NO_CHANGE = Change({})


class RecordBatch:
    """Records that are decoded together.

    ``values`` are their bytes once unpacked, ``contents`` what a parser made of them, ``objects`` the fields of each:
    empty if there are none. ``parts`` are their other parts by name. ``changes`` say what they do, in a change stream.
    ``is_open`` is a mask of the records about which nothing is decided yet. Of the others, ``is_filtered`` do not
    belong to the table, ``rejections`` has the rejected ones, and the native parser is not certain of
    ``is_uncertain``. ``unreadable`` has those that could not be unpacked. ``memories`` are the bytes of memory of what
    the strict parser made, and ``measured`` those of records that may take too much. ``rules`` are those of unpacked
    values.
    """

    def __init__(self, values: pa.Array, parts: Mapping[str, pa.Array | None], rules: Rules, native: Native | None):
        self.rules, self.values = rules, values.to_pylist()
        self.native = native if rules.parser.inner.contents.is_json else None
        self.arrays = {part: array for part, array in parts.items() if array is not None}
        count = len(self.values)
        self.contents: list[Any] = [None] * count
        self.objects: list[dict[str, Any]] = [{}] * count
        self.parts: dict[str, list[Any]] = {}
        self.changes: list[Change] = []
        self.rejections: dict[int, Rejection] = {}
        self.unreadable: dict[int, Rejection] = {}
        self.measured: dict[int, int] = {}
        self.memories = [0] * count
        self.is_open, self.is_filtered, self.is_uncertain = (np.full(count, flag) for flag in (True, False, False))

    def __len__(self) -> int:
        return len(self.values)

    def keep_first(self, count: int) -> None:
        """Leave out all records but the first ones."""
        self.values, self.contents, self.objects = self.values[:count], self.contents[:count], self.objects[:count]
        self.is_open, self.is_filtered = self.is_open[:count], self.is_filtered[:count]
        self.is_uncertain, self.memories = self.is_uncertain[:count], self.memories[:count]
        self.rejections = {record: rejection for record, rejection in self.rejections.items() if record < count}

    def reject(self, record: int, rejection: Rejection) -> None:
        """Decide that a record is rejected."""
        self.rejections[record] = rejection.without_frames()
        self.is_open[record] = False

    def filter(self, is_filtered: Mask) -> None:
        """Decide that records do not belong to the table, of those that are open."""
        self.is_filtered |= is_filtered & self.is_open
        self.is_open &= ~is_filtered

    def doubt(self, is_uncertain: Mask) -> None:
        """Leave open records to the strict parser."""
        self.is_uncertain |= is_uncertain & self.is_open
        self.is_open &= ~is_uncertain

    def settle(self, is_odd: Mask, decide: Callable[[int], None]) -> None:
        """Decide about open records of which a faster rule is not certain; not yet if the strict parser can."""
        if self.native:
            self.doubt(is_odd)
            return
        for record in np.flatnonzero(is_odd & self.is_open).tolist():
            try:
                decide(record)
            except Rejection as rejection:
                self.reject(record, rejection)

    def parts_of(self, record: int) -> dict[str, Any]:
        """The other parts of one record, as the strict rules read them."""
        parts = {part: array[record].as_py() for part, array in self.arrays.items()}
        return self.rules.complete_parts(parts, self.objects[record])


def unpack(batch: RecordBatch) -> None:
    """Unpack values that are packed; keep fewer records if more would take much memory."""
    rules, parser = batch.rules, batch.rules.parser
    if not parser.is_packed:
        return
    per_row, per_byte = column_memory(rules)
    total = 0
    for record, value in enumerate(batch.values):
        try:
            batch.values[record] = parser.unpack(value)
        except Rejection as rejection:
            batch.unreadable[record], batch.values[record] = rejection.without_frames(), None
        total += per_row + len(batch.values[record] or b"") * (per_byte + parser.memory_by_byte)
        if total > MAX_SLICE_MEMORY and record:
            batch.keep_first(record)
            break
    batch.rules = rules._replace(parser=parser.inner)


def parse(batch: RecordBatch, are_tombstones: Mask) -> None:
    """Parse the open records, and open the envelopes of changes."""
    if batch.native:
        _parse_natively(batch, batch.native, are_tombstones)
    else:
        _parse_strictly(batch, are_tombstones)
    if batch.rules.has_changes:
        _open_changes(batch)
    batch.parts = values_of_parts(batch.arrays, batch.objects, batch.rules)


def _parse_natively(batch: RecordBatch, native: Native, are_tombstones: Mask) -> None:
    rules = batch.rules
    per_row, per_byte = column_memory(rules)
    per_byte += rules.parser.memory_by_byte
    limit = (MAX_RECORD_MEMORY - per_row) // per_byte
    if max(map(len, filter(None, batch.values)), default=0) > limit:
        batch.doubt(np.fromiter((len(value or b"") > limit for value in batch.values), bool, len(batch)))
        batch.values = [
            None if is_odd else value for value, is_odd in zip(batch.values, batch.is_uncertain, strict=True)
        ]
    if batch.unreadable:
        batch.doubt(np.isin(np.arange(len(batch)), list(batch.unreadable)))
    shared = find_schema(batch.values, native) if rules.has_changes else None
    written = without_schema(batch.values, shared) if shared else batch.values
    batch.contents = parse_contents(written, rules.parser.contents.json_options, native)
    batch.doubt(inexact_values(written, batch.contents, rules.fields, native))
    if shared:
        is_without = [new is not value for new, value in zip(written, batch.values, strict=True)]
        batch.contents = add_schema(batch.contents, is_without, shared)
    batch.doubt(open_texts(batch.contents, rules, native))
    if rules.has_changes:
        return
    kinds = {list, dict} if rules.are_arrays and rules.single_object else {list} if rules.are_arrays else {dict}
    is_whole = set(map(type, batch.contents)) <= kinds
    if not is_whole:
        is_parsed = np.fromiter((type(content) in kinds for content in batch.contents), bool, len(batch))
        batch.doubt(~is_parsed & ~are_tombstones)
    if rules.are_arrays:
        batch.objects = [{} if content is None else {ELEMENT: content} for content in batch.contents]
    elif is_whole:
        batch.objects = batch.contents
    else:
        batch.objects = [content if type(content) is dict else {} for content in batch.contents]


def tombstones(batch: RecordBatch) -> Mask:
    """Which records delete the row of their key because they have no value."""
    deletes = batch.rules.deletes
    if batch.rules.has_changes or deletes is None or deletes.path:
        return np.zeros(len(batch), bool)
    has_value = (value is None and record not in batch.unreadable for record, value in enumerate(batch.values))
    return np.asarray(np.fromiter(has_value, bool, len(batch)) & batch.is_open)


def _parse_strictly(batch: RecordBatch, are_tombstones: Mask) -> None:
    """Parse record by record; keep fewer records if more would take much memory."""
    rules, parser = batch.rules, batch.rules.parser.contents
    memory_limits, total = column_memory(rules), 0
    parser.read_ahead(batch.values)
    for record in np.flatnonzero(batch.is_open & ~are_tombstones).tolist():
        value, memory = batch.values[record], 0
        try:
            if record in batch.unreadable:
                raise batch.unreadable[record]
            if value is None and rules.has_changes:
                continue
            batch.contents[record] = batch.objects[record] = parser(value)
            memory = parser.memory_of(value)
        except Rejection as rejection:
            batch.reject(record, rejection)
        total += memory
        batch.memories[record] = memory
        if total > MAX_SLICE_MEMORY and record and not parser.is_json:  # of JSON, a slice has as much as fits
            batch.keep_first(record)
            break
        if rules.rows_from is None and may_be_too_large(memory, len(value or b""), memory_limits):
            batch.measured[record] = memory


def may_be_too_large(memory: int, size: int, memory_limits: tuple[int, int]) -> bool:
    """Whether the columns of a value may take too much, in addition to the ``memory`` of the parsed value."""
    per_row, per_byte = memory_limits
    return memory + per_row + size * per_byte > MAX_RECORD_MEMORY


def _open_changes(batch: RecordBatch) -> None:
    """Put the row of each change in the place of its envelope."""
    rules, open_change = batch.rules, batch.rules.parser.change_opener(batch.rules.fields, is_exact=not batch.native)
    key_ways, is_odd = rules.key_ways, np.zeros(len(batch), bool)
    batch.changes, batch.objects = [NO_CHANGE] * len(batch), [{}] * len(batch)
    contents, values = batch.contents, batch.values
    for record in np.flatnonzero(batch.is_open).tolist():
        try:
            change = open_change(contents[record], values[record])
            if change.sides is not None and batch.native:
                is_odd[record] = not has_same_key(*change.sides, key_ways)
            elif change.sides is not None:
                require_same_key(*change.sides, key_ways)
            batch.changes[record], batch.objects[record] = change, change.fields
        except Rejection as rejection:
            if batch.native:
                is_odd[record] = True
            else:
                batch.reject(record, rejection)
    batch.doubt(is_odd)
