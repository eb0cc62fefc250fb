"""The classes with which a user declares a table. A declaration is checked when it is created.

``table`` defines ``StreamTable`` on top of ``table_parts`` and ``table_options``, ``view`` defines ``View``, ``export``
``Export`` and what it shares with the ``Sink`` of ``sink``. ``columns``, ``sources``, ``conditions``, ``samples`` and
``vocabulary`` define the classes of its parts. ``rules`` lists what is refused, ``names`` which names are reserved,
which one the user meant, and what replaces former ones, ``sql`` what may be computed. ``snapshot`` describes a
declaration as JSON, so that a later one can be compared with it. ``inference`` proposes a declaration from records.

A new option belongs into the group of its subject, and its restrictions into ``rules``. The package does no input or
output. Every package above may import it; it imports ``lakehouse.decoding``, ``lakehouse.errors`` and, from
``lakehouse.settings``, what a path is.
"""

from lakehouse.declaration.columns import Column, Computed, Time
from lakehouse.declaration.conditions import Deletes, FieldExists, FieldIs, HeaderIs, Reject, SchemaIs, Tombstone
from lakehouse.declaration.export import Export
from lakehouse.declaration.samples import Rows, SampleRecords, Samples
from lakehouse.declaration.sink import ChangesTopic, DataExplorerTable, PostgresTable, Sink, SqlServerTable
from lakehouse.declaration.sources import Files, Generated, TableRows, Topic, TopicPattern, Topics
from lakehouse.declaration.table import StreamTable
from lakehouse.declaration.view import View
from lakehouse.declaration.vocabulary import (
    Check,
    Day,
    Explode,
    Hour,
    Late,
    Measure,
    Month,
    Promise,
    Reference,
    Rollup,
    Upkeep,
    Value,
    Version,
    Year,
)
from lakehouse.decoding.deletes import Delete, Truncate
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import (
    Avro,
    BigEndian,
    Compressed,
    ConnectJson,
    Csv,
    Debezium,
    FixedWidth,
    Json,
    Logfmt,
    Protobuf,
    Regex,
    Text,
)
from lakehouse.decoding.record_parts import (
    BrokerTime,
    Cut,
    Element,
    ElementIndex,
    ParentField,
    RecordHeader,
    RecordKey,
    TopicName,
    UnmappedFields,
    ValueOrObject,
)
from lakehouse.decoding.written_forms import KeyValues, TextBoolean, TextNumber, Zone

__all__ = [
    "Avro",
    "BigEndian",
    "BrokerTime",
    "ChangesTopic",
    "Check",
    "Column",
    "Compressed",
    "Computed",
    "ConnectJson",
    "Csv",
    "Cut",
    "DataExplorerTable",
    "Day",
    "Debezium",
    "Delete",
    "Deletes",
    "Element",
    "ElementIndex",
    "Explode",
    "Export",
    "FieldExists",
    "FieldIs",
    "Files",
    "FixedWidth",
    "Generated",
    "HeaderIs",
    "Hour",
    "Json",
    "KeyValues",
    "Late",
    "Logfmt",
    "Measure",
    "Month",
    "ParentField",
    "PostgresTable",
    "Promise",
    "Protobuf",
    "RecordHeader",
    "RecordKey",
    "Reference",
    "Regex",
    "Reject",
    "Rejection",
    "Rollup",
    "Rows",
    "SampleRecords",
    "Samples",
    "SchemaIs",
    "Sink",
    "SqlServerTable",
    "StreamTable",
    "TableRows",
    "Text",
    "TextBoolean",
    "TextNumber",
    "Time",
    "Tombstone",
    "Topic",
    "TopicName",
    "TopicPattern",
    "Topics",
    "Truncate",
    "UnmappedFields",
    "Upkeep",
    "Value",
    "ValueOrObject",
    "Version",
    "View",
    "Year",
    "Zone",
]
