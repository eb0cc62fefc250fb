"""Records → rows and reasons. DataFrame in, DataFrame out; no input or output of its own.

The decoding itself (``lakehouse.decoding.verdicts``) is Python that runs inside Spark's workers over Arrow batches.
Only the parts of a record that are asked for go there: every other column stays in the JVM.
"""

import json
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse import decoding
from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.record_parts import HEADER, TIME, VALUE
from lakehouse.decoding.verdicts import Decoded, Rules, decode_slices

# of 32 bits, without a sign, as lakehouse.decoding.formats.framing reads it
_SCHEMA = (
    f"IF(octet_length({staged.VALUE}) >= 5 AND substring({staged.VALUE}, 1, 1) = X'00',"
    f" CAST(conv(hex(substring({staged.VALUE}, 2, 4)), 16, 10) AS BIGINT), NULL)"
)
_VERDICT = f"{staged.OTHERS} STRING, {staged.REASON} STRING, {staged.DETAIL} STRING, {staged.LATE} BOOLEAN"


def decode_records(records_read: DataFrame, table: StreamTable, schemas: Schemas = NO_SCHEMAS) -> DataFrame:
    """Decode each record into a row or a reason; ``schemas`` are those that are known, where their ids are told.

    In: the columns of ``staged.PLACE`` and ``staged.RAW``. Out, one row for each record: its place; ``_reason`` and
    ``_detail`` (NULL where the record may enter); the raw parts (NULL where it may); ``_late``; ``_others`` (of some
    records together, by one of them: fields that no column takes, as JSON); the declared
    columns (NULL where it may not), computed ones among them, and the partition column; of those whose null erases,
    whether the record says it (``_null_said_NAME``); ``_schema``, where its format
    tells one, is the id of its schema, NULL where none can be read. No declared name begins with an underscore.
    """
    erasing = (f"{staged.NULL_SAID}{name} BOOLEAN" for name in table.null_erases)
    columns = ", ".join([*(f"`{f.name}` {f.type}" for f in table.fields), *erasing])
    decode = F.arrow_udf(_decoder(table, schemas), f"{_VERDICT}, {columns}")  # type: ignore[attr-defined]
    # else Spark decodes a second time for a filter, which it puts before the columns
    decode_once = decode.asNondeterministic()
    asked = [F.expr(_of_record(part)) for part in _asked(table)]  # what need not be asked need not be sent
    judged = records_read.withColumn("_verdict", decode_once(staged.VALUE, *asked))
    raw = (F.expr(f"CASE WHEN _verdict.{staged.REASON} IS NOT NULL THEN {name} END").alias(name) for name in staged.RAW)
    schema = [F.expr(_SCHEMA).alias(staged.SCHEMA)] if table.format.framed else []
    decoded = judged.select(*staged.PLACE, *raw, *schema, "_verdict.*")
    return with_computed(decoded, table)


def with_computed(rows: DataFrame, table: StreamTable) -> DataFrame:
    """Add what follows from the columns that records and base rows tell: computed columns, and the partition column."""
    if table.computed:
        rows = rows.withColumns({name: F.expr(sql) for name, sql in table.computed.items()})
    if table.partition_by is None or table.partition_column is None:
        return rows
    return rows.withColumn(table.partition_by.name, F.expr(table.partition_by.expression))


def _decoder(table: StreamTable, schemas: Schemas = NO_SCHEMAS) -> Any:
    """Build the function that Spark ships to its workers: by value, so that they need not have this package."""
    fields, late, form = table.fields, table.late.rule if table.late else None, table.format
    _ship_by_value(form)
    shipped, others_column = _quick_path(), staged.OTHERS  # a text: workers need not have the module

    def tell(decoded: Decoded) -> pa.Array:
        """The verdicts, of which the first says what other fields there are."""
        verdicts, others = decoded
        said = json.dumps(others) if others else None
        first = pa.array([said, *[None] * (len(verdicts) - 1)][: len(verdicts)], pa.string())
        names = [field.name for field in verdicts.type]
        return pa.StructArray.from_arrays([first, *verdicts.flatten()], [others_column, *names])

    def load() -> tuple[Rules, Any]:
        rules = Rules(fields, late, form.parser(schemas))
        try:
            return rules, pickle.loads(shipped)  # noqa: S301 - the driver's own function
        except ImportError:
            return rules, None

    asked = _asked(table)

    def decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        rules, quick = load()
        return (tell(some) for values in batches for some in decode_slices(values, None, rules, quick))

    def decode_with_parts(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        rules, quick = load()
        for values, *others in batches:
            parts = dict(zip(asked, others, strict=True))
            yield from map(tell, decode_slices(values, parts.pop(TIME, None), rules, quick, parts))

    return decode_with_parts if asked else decode


def _ship_by_value(form: Format) -> None:
    """Have the package that decodes shipped with what uses it, and the modules of a format that is not in it.

    A class whose module cannot be imported by its name is shipped by value anyway.
    """
    cloudpickle.register_pickle_by_value(decoding)  # type: ignore[no-untyped-call]
    for name in {each.__module__ for each in type(form).__mro__ if issubclass(each, Format)}:
        if name in sys.modules and not name.startswith(f"{decoding.__name__}."):
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def _asked(table: StreamTable) -> list[str]:
    """The parts of a record, beside its value, that decide what becomes of it."""
    parts = {field.part for field in table.fields} - {VALUE}
    return sorted(parts | ({TIME} if table.late else set()))


def _of_record(part: str) -> str:
    """A part of a record in SQL."""
    if part.startswith(HEADER):
        named = quoted(part.removeprefix(HEADER))
        return f"try_element_at(filter({staged.HEADERS}, each -> each.key = {named}), -1).value"
    return f"unix_micros({staged.TIME})" if part == TIME else staged.KEY


def _quick_path() -> bytes:
    """The quick path in bytes of its own: a worker that lacks its parser loads the rest; that of nothing without it."""
    try:
        from lakehouse.decoding.fast.plain_records import decode_plain  # noqa: PLC0415 - its parser may be missing
    except ImportError:
        return pickle.dumps(None)
    return bytes(cloudpickle.dumps(decode_plain))  # type: ignore[no-untyped-call]
