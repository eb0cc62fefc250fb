"""The columns of records on their way through a batch, by the stage that adds them.

Each begins with an underscore, as no declared column does. Statements name them by these constants. What Python's
workers are sent takes the constants themselves, not this module.
"""

TIME = "_time"
"""When the broker got the record, TIMESTAMP; NULL for a base row."""
PARTITION = "_partition"
"""Partition of the record, INT; NULL for a base row."""
POSITION = "_position"
"""Position of the record in its partition, BIGINT; NULL for a base row."""
SEQUENCE = "_sequence"
"""The record in its source's own order, BIGINT; NULL for a base row, and where the source has none."""
KEY = "_key"
"""Key of the record as it came, BINARY."""
VALUE = "_value"
"""Value of the record as it came, BINARY; NULL for a tombstone."""
HEADERS = "_headers"
"""Headers of the record as they came, ARRAY<STRUCT<key STRING, value BINARY>>."""
PLACE = (TIME, PARTITION, POSITION, SEQUENCE)
RAW = (KEY, VALUE, HEADERS)

SCHEMA = "_schema"
"""Id of the schema that stands before the value, BIGINT; NULL where none does."""
REASON = "_reason"
"""Why the record may not enter, STRING; NULL where it may."""
DETAIL = "_detail"
"""What exactly is wrong with it, STRING."""
LATE = "_late"
"""Whether it came late, BOOLEAN."""
OTHERS = "_others"
"""Fields that no column takes, of some records, STRING."""
NULL_SAID = "_null_said_"
"""Whether the record says null for a column, BOOLEAN; followed by the name of that column."""

BASE = "_base"
"""Number of the commit that brings a base row, BIGINT; NULL for a record."""

STALE = "_stale"
"""Whether the table has a newer row, BOOLEAN."""
MET = "_met"
"""The row of the table with the same key, as it was compared; NULL where there is none."""
NEWER = "_newer"
"""Whether a row is newer than the one it meets, BOOLEAN; followed by the name of a kept column, whether that is."""

BEFORE = "_before"
"""Of a change: the columns beside the key before it, STRUCT; NULL where there was no row."""
AFTER = "_after"
"""Of a change: the columns beside the key after it, STRUCT; NULL where there is no row."""
