"""The vocabulary in which a table is declared. A declaration is checked when it is made.

``vocabulary`` holds the parts, with ``partitions`` and ``parts`` (where a value comes from), ``table`` the whole (of
``declared_table``);
``field_types``, ``type_rules``, ``time_rules``, ``column_rules``, ``table_rules``, ``expression_rules`` and the package
``sql`` say what is refused, ``names`` which are taken. ``fields`` is what follows for one field of a record, and why
it is rejected, ``nested`` what follows where its values hold others. ``records`` decodes one record: it parses,
``values`` turns what is parsed into typed ``numbers`` and ``times``. ``verdicts`` decodes many at once, the plain ones
by ``quick`` (their values by ``quick_columns`` and ``quick_times``): what a record may be is said in ``records`` and
``values`` alone, ``quick`` only has to be sure. ``room`` is how much memory that takes at most. The package ``formats``
has a module for each way in which records are written, and says how to add one. ``arrow`` has the types. ``proposal``
(by ``proposed_types``, ``proposed_key`` and ``proposed_kinds``) is one made from records, ``misspelt`` what a person
meant by a word that there is not. ``others`` are fields of records that no column takes, ``staged`` the columns of
records within a batch. ``widening`` says which types hold the values of which, ``facts`` what a declaration says, for
the one after it. A new part of the vocabulary goes into ``vocabulary``, and what may not be said of it into the rules.

No input or output: everything may import this package, and it imports ``lakehouse.errors`` and nothing else of ours.
"""

from lakehouse.declaration.fields import Rejection
from lakehouse.declaration.formats import Avro, Json
from lakehouse.declaration.partitions import Day, Month, Value, Year
from lakehouse.declaration.parts import BrokerTime, RecordHeader, RecordKey
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
