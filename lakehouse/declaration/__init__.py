"""The classes with which a user declares a table. A declaration is checked when it is created.

``table`` defines ``StreamTable`` on top of ``table_parts`` (``table_options``, ``table_names``), ``view`` defines
``View``, and ``export`` defines ``Export``. ``vocabulary`` and ``partitions`` define the classes of its parts,
``table_inputs`` what it reads, ``conditions`` which records delete, belong to the table or are rejected, ``references``
what they refer to. ``rules`` lists what is refused, ``names`` which names are reserved and which one the user meant,
``sql`` what may be computed, ``widening`` which types can replace another type. ``snapshot`` describes a declaration as
JSON, so that a later one can be compared with it. ``inference`` proposes a declaration from records.

A new class belongs into ``vocabulary``, and its restrictions into ``rules``. The package does no input or output. Every
package above may import it; it imports ``lakehouse.decoding``, ``lakehouse.errors`` and, from ``lakehouse.settings``,
what a path is.
"""

from lakehouse.declaration.conditions import FieldIs, HeaderIs, Reject, SchemaIs, Tombstone
from lakehouse.declaration.export import Export
from lakehouse.declaration.partitions import Day, Hour, Month, Value, Year
from lakehouse.declaration.references import Reference
from lakehouse.declaration.table import StreamTable
from lakehouse.declaration.table_inputs import Files, Generated, TableRows, TopicPattern
from lakehouse.declaration.view import View
from lakehouse.declaration.vocabulary import (
    AvroSamples,
    BaseSamples,
    Check,
    Column,
    Late,
    Measure,
    Rollup,
    Rows,
    SampleRecords,
    Samples,
    Version,
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
    Json,
    Logfmt,
    Protobuf,
    Text,
)
from lakehouse.decoding.generated import Choice, Counter, Hash
from lakehouse.decoding.record_parts import (
    BrokerTime,
    Element,
    ElementIndex,
    ParentField,
    RecordHeader,
    RecordKey,
    TopicName,
    UnmappedFields,
    ValueOrObject,
)
from lakehouse.decoding.written_forms import KeyValues, TextBoolean, TextNumber
from lakehouse.decoding.zones import Zone

__all__ = [
    "Avro",
    "AvroSamples",
    "BaseSamples",
    "BigEndian",
    "BrokerTime",
    "Check",
    "Choice",
    "Column",
    "Compressed",
    "ConnectJson",
    "Counter",
    "Csv",
    "Day",
    "Debezium",
    "Delete",
    "Element",
    "ElementIndex",
    "Export",
    "FieldIs",
    "Files",
    "Generated",
    "Hash",
    "HeaderIs",
    "Hour",
    "Json",
    "KeyValues",
    "Late",
    "Logfmt",
    "Measure",
    "Month",
    "ParentField",
    "Protobuf",
    "RecordHeader",
    "RecordKey",
    "Reference",
    "Reject",
    "Rejection",
    "Rollup",
    "Rows",
    "SampleRecords",
    "Samples",
    "SchemaIs",
    "StreamTable",
    "TableRows",
    "Text",
    "TextBoolean",
    "TextNumber",
    "Tombstone",
    "TopicName",
    "TopicPattern",
    "Truncate",
    "UnmappedFields",
    "Value",
    "ValueOrObject",
    "Version",
    "View",
    "Year",
    "Zone",
]
