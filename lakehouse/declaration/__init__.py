"""What a person writes to declare a table. A declaration is checked when it is made.

``table`` is the whole, of ``table_parts``; ``vocabulary`` holds its parts, with ``partitions``. ``rules`` say what
is refused, ``names`` which names are taken, ``sql`` what may be computed, ``widening`` which types hold the values of
which. ``snapshot`` is what a declaration says, kept for the one after it. ``inference`` proposes a declaration from
records. ``misspelt`` finds the word that a person meant.

A new part of the vocabulary goes into ``vocabulary``, and what may not be said of it into ``rules``. No input or
output: every floor above may import this package, and it imports ``lakehouse.decoding`` and ``lakehouse.errors``.
"""

from lakehouse.declaration.partitions import Day, Month, Value, Year
from lakehouse.declaration.table import StreamTable, declared_together
from lakehouse.declaration.vocabulary import (
    AvroSamples,
    BaseSamples,
    Check,
    Column,
    Late,
    Measure,
    Reference,
    Rollup,
    Rows,
    SampleRecords,
    Samples,
)
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Avro, Json
from lakehouse.decoding.record_parts import BrokerTime, RecordHeader, RecordKey

__all__ = [
    "Avro",
    "AvroSamples",
    "BaseSamples",
    "BrokerTime",
    "Check",
    "Column",
    "Day",
    "Json",
    "Late",
    "Measure",
    "Month",
    "RecordHeader",
    "RecordKey",
    "Reference",
    "Rejection",
    "Rollup",
    "Rows",
    "SampleRecords",
    "Samples",
    "StreamTable",
    "Value",
    "Year",
    "declared_together",
]
