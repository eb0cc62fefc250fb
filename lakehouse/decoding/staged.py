"""The columns of records within a batch, by the stage that adds them.

Each name begins with an underscore, which no declared column does. Statements use these constants. What is sent to
Python's workers contains the constants themselves, not this module.
"""

TIME = "_time"
"""When the broker received the record, TIMESTAMP; NULL for a base row."""
ORDER_TIME = "_order_time"
"""The time by which the record is ordered, TIMESTAMP, if that is a later one than ``TIME``: that of an earlier record
of its partition. NULL if it is ``TIME``, and for a base row."""
CHECKSUM = "_checksum"
"""CRC-32 of the value of the record, or of the key if it has no value, BIGINT; NULL if Spark does not read it."""
PARTITION = "_partition"
"""Partition of the record, INT; NULL for a base row."""
POSITION = "_position"
"""Offset of the record in its partition, BIGINT; NULL for a base row."""
SEQUENCE = "_sequence"
"""Place of the record in the order of its source, BIGINT; NULL for a base row, and if the source has no order."""
INDEX = "_index"
"""Place of the row in the array of its record, INT, from 0; NULL if the record is judged as a whole. Only in tables
with ``rows_from``."""
KEY = "_key"
"""Key of the record as it was received, BINARY."""
VALUE = "_value"
"""Value of the record as it was received, BINARY; NULL for a tombstone."""
HEADERS = "_headers"
"""Headers of the record as they were received, ARRAY<STRUCT<key STRING, value BINARY>>."""
PLACE = (TIME, PARTITION, POSITION, SEQUENCE)
RAW = (KEY, VALUE, HEADERS)

VERDICT = "_verdict"
"""What decoding says about the record, STRUCT, before its fields are columns of their own."""
SCHEMA = "_schema"
"""Id of the schema in front of the value, BIGINT; NULL if there is none."""
KEY_SCHEMA = "_key_schema"
"""Id of the schema in front of the key, BIGINT; NULL if there is none. Only in tables whose keys have schemas."""
REASON = "_reason"
"""Why the record is rejected, STRING; NULL if it is not."""
FILTERED = "filtered"
"""In place of a reason: the record does not meet ``where``. It is neither stored nor rejected."""
EMPTY = "empty"
"""In place of a reason: the array of the record has no element, so the record has no row."""
KEEPS_RAW = "_keeps_raw"
"""Whether the row is the first rejected one of its record, BOOLEAN: only it keeps the raw parts of the record. Only in
tables with ``rows_from``."""
WRITTEN = "written"
"""In place of a reason: the row describes a data file with valid records of the batch, in its detail."""
ERASED = "erased"
"""In place of a reason: the key of the record was erased after the record was read."""
NO_ROWS = (FILTERED, EMPTY, ERASED)
"""What is in place of a reason if a record is not rejected and has no row."""
DETAIL = "_detail"
"""What exactly is wrong with the record, STRING."""
LATE = "_late"
"""Whether the record is late, BOOLEAN."""
ROUNDED = "_rounded"
"""Whether a decimal of the record lost digits when it was rounded to its column, BOOLEAN; only in tables with DECIMAL
columns that are read from records."""
DELETED = "_deleted"
"""Whether the record deletes the row of its key, BOOLEAN; only in tables that declare deletes."""
SNAPSHOT = "_snapshot"
"""Of a record of a snapshot, STRING: ``WHOLE`` if it is one of the whole table, ``LAST`` if it also ends it, else
``PART``; NULL for a change. Only in tables of change streams."""
PART, WHOLE, LAST = "part", "whole", "last"
ORIGIN = "_origin"
"""Of a change, a number for the server and the log in which its position is, BIGINT; NULL if the source has only one.
Only in tables of change streams."""
ROWLESS = "_rowless"
"""Whether the record is about no row of its own, BOOLEAN: a truncate; in a change stream, where truncates have a
sequence, also the tombstone after a delete. Only in tables that declare truncates or follow a change stream."""
UNMAPPED_FIELDS = "_others"
"""Unmapped fields of some records, STRING."""
UNKNOWN = "_unknown_"
"""Whether no row of a reference has the values of a row, BOOLEAN; followed by the number of the rule of ``rejects``."""
EXPLICIT_NULL = "_explicit_null_"
"""Whether the record has an explicit null for a column, BOOLEAN; followed by the name of that column."""

BASE = "_base"
"""Number of the commit that adds a base row, BIGINT; NULL for a record."""

STALE = "_stale"
"""Whether the table has a newer row, BOOLEAN."""
DELETE = "_delete"
"""The order of the newest delete of a key in a batch, STRUCT; its fields are NULL if there is none. Only in tables that
declare deletes."""
LIVES = "_lives"
"""Whether the stored row is newer than the newest delete of its key, BOOLEAN; with the name of a kept column appended,
for that column."""
REMOVES = "_removes"
"""Whether the row of the table is deleted, BOOLEAN; only in tables that declare deletes."""
NO_ROW = "_no_row"
"""Whether a delete found no row, BOOLEAN; only in tables that declare deletes."""
EQUAL_VERSION = "_equal_version"
"""Whether the version does not order a record after another one of its batch, or the stored row, with the same key,
and not all have the same values, BOOLEAN."""
MATCHED_ROW = "_met"
"""The row of the table with the same key, as it was compared; NULL if there is none."""
SLOT = "_slot"
"""Where a row of the table is, STRUCT<file, index>: the URI of its data file, and its index in the file, from 0."""
IS_NEWER = "_newer"
"""Whether a row is newer than the stored row, BOOLEAN; with the name of a kept column appended, for that column."""

READ_AGAIN = "_again"
"""Whether the record of a stored row is read again, BOOLEAN; with the name of a kept column appended, for that column.
Only if rows are corrected."""
WITHDRAWN = "_withdrawn"
"""Whether the row has no record: its key has a stored row of a record that gives it none any more, BOOLEAN. Only if
rows are corrected."""
CORRECTED = "_corrected"
"""Whether the stored row changes because of what its own record is by now, BOOLEAN. Only if rows are corrected."""

BEFORE = "_before"
"""Of a change: the columns outside the key before it, STRUCT; NULL if there was no row."""
AFTER = "_after"
"""Of a change: the columns outside the key after it, STRUCT; NULL if there is no row."""
