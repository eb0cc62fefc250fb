"""Records → rows and reasons. DataFrame in, DataFrame out, without side effects.

The decoding itself (``lakehouse.decoding.verdicts``) is Python that runs inside Spark's workers over Arrow batches.
Only the required parts of a record are sent to them: every other column stays in the JVM.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse import decoding
from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.decoding.fields import UNREADABLE_FILE
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.formats.json.format import JsonParser
from lakehouse.decoding.json_parsing import find_native
from lakehouse.decoding.record_keys import key_parser
from lakehouse.decoding.record_parts import (
    FAULT_HEADER,
    HEADER,
    INDEX,
    KEY,
    PARSED_KEY,
    SCHEMA,
    TIME,
    TOPIC,
    UNMAPPED,
    VALUE,
)
from lakehouse.decoding.rows import KnownValues, unknown_finder
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import DecodedRecords, decode_slices, first_rejected, with_rows
from lakehouse.ingest.rejecting_rules import is_rejected_sql, reject_by_rules, unknown_flags
from lakehouse.sources.source import Judge, Undecoded

# unsigned, 32 bits, as in lakehouse.decoding.formats.framing
_SCHEMA = (
    "IF(octet_length({0}) >= 5 AND substring({0}, 1, 1) = X'00',"
    " CAST(conv(hex(substring({0}, 2, 4)), 16, 10) AS BIGINT), NULL)"
)
_CHECKSUM = f"crc32(coalesce({staged.VALUE}, {staged.KEY}))"
_VERDICT = {
    staged.UNMAPPED_FIELDS: "STRING",
    staged.REASON: "STRING",
    staged.DETAIL: "STRING",
    staged.LATE: "BOOLEAN",
}
_OF_CHANGES = {staged.SEQUENCE: "BIGINT", staged.SNAPSHOT: "STRING", staged.ORIGIN: "BIGINT"}
_OF_RECORDS = {
    staged.TIME: "TIMESTAMP",
    staged.ORDER_TIME: "TIMESTAMP",
    staged.PARTITION: "INT",
    staged.POSITION: "BIGINT",
    staged.SEQUENCE: "BIGINT",
}


def decided_columns(table: StreamTable) -> dict[str, str]:
    """Return what decoding decides of a row besides its values: the names and types of staged columns, in order."""
    columns = {f"{staged.EXPLICIT_NULL}{name}": "BOOLEAN" for name in table.null_erases}
    columns |= dict.fromkeys(table.rules().marks, "BOOLEAN")
    columns |= _OF_CHANGES if table.has_changes else {}
    return columns | ({staged.INDEX: "INT"} if table.has_elements else {})


def as_batch(rows: DataFrame, table: StreamTable) -> DataFrame:
    """Give rows that come from no record the staged columns of a batch: no flag is set, and nothing else is known."""
    columns = _OF_RECORDS | _VERDICT | decided_columns(table)
    values = {name: "false" if type_ == "BOOLEAN" else f"CAST(NULL AS {type_})" for name, type_ in columns.items()}
    return rows.withColumns({name: F.expr(value) for name, value in values.items()})


def decode_records(
    records: DataFrame | Undecoded,
    table: StreamTable,
    schemas: Schemas = NO_SCHEMAS,
    keep_raw: str = "",
    known_values: Sequence[KnownValues] = (),
) -> DataFrame:
    """Decode each record into a row or a reason; ``schemas`` are the known schemas, if records have schema ids.

    ``known_values`` are the values that rules of the table know, as ``read_known`` returns them.

    In: the columns of ``staged.PLACE`` and ``staged.RAW``, or records that their readers decode. Out, one row for each
    record: its position, and of a DataFrame its checksum; no time of order; ``_reason`` and ``_detail`` (NULL if the
    record is valid); the raw parts (NULL if it is, unless it meets the condition ``keep_raw``); ``_late``; ``_others``
    (JSON: the unmapped fields of a group of records, on one record of the group); the declared columns (NULL if it may
    not), computed ones among them, and the partition column; for each column whose null erases, whether the record has
    a null (``_explicit_null_NAME``); if deletes are declared, ``_deleted``: whether the record is one, which has only
    its key and its version; if columns are DECIMAL, ``_rounded``; if truncates are declared, and in a change stream,
    ``_rowless``; in a change stream, ``_sequence``, ``_snapshot`` and ``_origin``; and, if its format has schema ids,
    ``_schema``: the id of its schema, NULL if it cannot be read, and ``_key_schema`` if its key has one. No declared
    name begins with an underscore. If elements of an array are rows, one row for each element, with ``_index``, or one
    for a record that is judged as a whole; only the first rejected one has the raw parts.
    """
    values = {f"`{field.name}`": field.type for field in table.fields}
    columns = _VERDICT | values | decided_columns(table) | dict.fromkeys(unknown_flags(table), "BOOLEAN")
    type_ = ", ".join(f"{name} {column_type}" for name, column_type in columns.items())
    type_ = f"ARRAY<STRUCT<{type_}, {staged.KEEPS_RAW} BOOLEAN>>" if table.has_elements else f"STRUCT<{type_}>"
    needs_raw = bool(table.has_elements or table.rejects or keep_raw or table.format.framed or table.key_format)
    judge = Judge(_decoder(table, schemas, known_values), type_, _required_parts(table), needs_raw)
    judged_records = _judged(records, judge) if isinstance(records, DataFrame) else records.judged(judge)
    schema = [F.expr(_SCHEMA.format(staged.VALUE)).alias(staged.SCHEMA)] if table.format.framed else []
    schema += [F.expr(_SCHEMA.format(staged.KEY)).alias(staged.KEY_SCHEMA)] if table.key_format else []
    checksum = _CHECKSUM if isinstance(records, DataFrame) else "NULL"
    place = [F.col(name) for name in staged.PLACE if name != staged.SEQUENCE or not table.has_changes]
    place.append(F.expr(f"CAST({checksum} AS BIGINT)").alias(staged.CHECKSUM))
    place.append(F.lit(None).cast("timestamp").alias(staged.ORDER_TIME))
    if table.has_elements:
        rows = _explode(judged_records.select(*place, *staged.RAW, *schema, staged.VERDICT), table)
        return reject_by_rules(with_computed(_explain_faults(rows) if table.reads_files else rows, table), table)
    decoded_records = judged_records.select(*place, *staged.RAW, *schema, f"{staged.VERDICT}.*")
    decoded_records = reject_by_rules(with_computed(decoded_records, table), table)
    keeps_raw = f"{staged.REASON} <> '{staged.FILTERED}'" + (f" OR {keep_raw}" if keep_raw else "")
    raw = {name: F.expr(f"CASE WHEN {keeps_raw} THEN {name} END") for name in staged.RAW}
    decoded_records = decoded_records.withColumns(raw)
    return _explain_faults(decoded_records) if table.reads_files else decoded_records


def _judged(records: DataFrame, judge: Judge) -> DataFrame:
    """Add the verdict to each record; only the required parts of a record are sent to the workers."""
    decode = F.arrow_udf(judge.decode, judge.type)  # type: ignore[attr-defined]
    # else Spark decodes a second time for a filter, which it puts before the columns
    decode_once = decode.asNondeterministic()
    return records.withColumn(
        staged.VERDICT, decode_once(staged.VALUE, *(F.expr(_part_sql(part)) for part in judge.parts))
    )


def _explain_faults(records: DataFrame) -> DataFrame:
    """Give records that stand for the unreadable rest of a file their own reason, with its place."""
    faults = f"filter({staged.HEADERS}, header -> header.key = '{FAULT_HEADER}')"
    fault = f"CAST(try_element_at({faults}, 1).value AS STRING)"
    is_fault = f"{staged.REASON} IS NOT NULL AND {fault} IS NOT NULL"
    explanation = {staged.REASON: f"'{UNREADABLE_FILE}'", staged.DETAIL: fault}
    return records.withColumns({n: F.expr(f"IF({is_fault}, {sql}, {n})") for n, sql in explanation.items()})


def _explode(records: DataFrame, table: StreamTable) -> DataFrame:
    """Return a row for each verdict on a record; the raw parts are nowhere repeated."""
    kept_names = [name for name in records.columns if name not in (*staged.RAW, "_verdict")]
    keeps_raw = f"verdict.{staged.KEEPS_RAW}"
    if table.rejects:  # the first row that is rejected may be so by a rule
        are_rejected = f"transform(_verdict, verdict -> {is_rejected_sql(table, 'verdict')})"
        records = records.withColumn("_first", F.expr(f"array_position({are_rejected}, true) - 1"))
        keeps_raw = "place = _first"
    raw = (f"'{name}', IF({keeps_raw}, {name}, NULL)" for name in staged.RAW)
    row = F.expr(f"transform(_verdict, (verdict, place) -> named_struct('verdict', verdict, {', '.join(raw)}))")
    rows = records.select(*kept_names, F.explode(row).alias("_row"))
    raw_columns = [F.col(f"_row.{name}").alias(name) for name in staged.RAW]
    return rows.select(*kept_names, *raw_columns, "_row.verdict.*").drop(staged.KEEPS_RAW)


def with_computed(rows: DataFrame, table: StreamTable) -> DataFrame:
    """Add the columns that follow from the values of records and base rows: computed and partition columns."""
    if table.computed:
        rows = rows.withColumns({name: F.expr(sql) for name, sql in table.computed.items()})
    if table.partition_by is None or table.partition_column is None:
        return rows
    return rows.withColumn(table.partition_by.name, F.expr(table.partition_by.expression))


def _decoder(table: StreamTable, schemas: Schemas = NO_SCHEMAS, known_values: Sequence[KnownValues] = ()) -> Any:
    """Build the function that Spark ships to its workers: by value, so that they do not need this package."""
    record_format, rules_of_any_format = table.format, table.rules()._replace(parser=JsonParser(), key_parser=None)
    _ship_by_value(record_format)
    unmapped_column, keeps_raw = staged.UNMAPPED_FIELDS, staged.KEEPS_RAW  # strings: workers may not have the module
    finders = dict(zip(unknown_flags(table), map(unknown_finder, known_values), strict=True))

    def to_struct(decoded_slice: DecodedRecords) -> pa.Array:
        """Return the verdicts; the first of them has the unmapped fields. Many rows of a record are a list of them."""
        verdicts, unmapped_fields = decoded_slice
        if isinstance(verdicts, pa.ListArray):
            rows = to_struct(DecodedRecords(verdicts.values, unmapped_fields))
            names = [*(field.name for field in rows.type), keeps_raw]
            rows = pa.StructArray.from_arrays([*rows.flatten(), first_rejected(verdicts)], names)
            return with_rows(verdicts, rows)
        fields_json = json.dumps(unmapped_fields) if unmapped_fields else None
        column = pa.array([fields_json, *[None] * (len(verdicts) - 1)][: len(verdicts)], pa.string())
        names = [field.name for field in verdicts.type]
        flags = [find_unknown(verdicts) for find_unknown in finders.values()]
        return pa.StructArray.from_arrays([column, *verdicts.flatten(), *flags], [unmapped_column, *names, *finders])

    def load() -> Rules:
        rules = rules_of_any_format.with_parser(record_format.parser(schemas))
        return rules._replace(key_parser=key_parser(rules.fields, schemas))

    part_names = _required_parts(table)

    def decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        rules, native = load(), find_native()
        return (to_struct(slice_) for values in batches for slice_ in decode_slices(values, None, rules, native))

    def decode_with_parts(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        rules, native = load(), find_native()
        for values, *part_values in batches:
            parts = dict(zip(part_names, part_values, strict=True))
            yield from map(to_struct, decode_slices(values, parts.pop(TIME, None), rules, native, parts))

    return decode_with_parts if part_names else decode


def _ship_by_value(record_format: Format) -> None:
    """Ship the decoding package together with what uses it, and the modules of a format outside of that package.

    A class whose module cannot be imported by its name is shipped by value anyway.
    """
    cloudpickle.register_pickle_by_value(decoding)  # type: ignore[no-untyped-call]
    forms = filter(None, (record_format, record_format.written))
    classes = {class_ for form in forms for class_ in type(form).__mro__ if issubclass(class_, Format)}
    for name in {class_.__module__ for class_ in classes}:
        if name in sys.modules and not name.startswith(f"{decoding.__name__}."):
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def _required_parts(table: StreamTable) -> list[str]:
    """Return the parts of a record that decoding requires in addition to its value."""
    parts = {KEY if field.place.part == PARSED_KEY else field.place.part for field in table.fields}
    parts -= {VALUE, UNMAPPED, TOPIC, INDEX}
    parts |= {condition.record_filter.part for condition in table.conditions} - {VALUE, SCHEMA}
    return sorted(parts | ({TIME} if table.late else set()))


def _part_sql(part: str) -> str:
    """Return a part of a record as SQL."""
    if part.startswith(HEADER):
        name = quoted(part.removeprefix(HEADER))
        return f"try_element_at(filter({staged.HEADERS}, header -> header.key = {name}), -1).value"
    return f"unix_micros({staged.TIME})" if part == TIME else staged.KEY
