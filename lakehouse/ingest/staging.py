"""The decoded records of a batch, held once: what they are read by is learnt on the way."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.kept_schemas import kept_schemas
from lakehouse.ledger.commits import Kind
from lakehouse.storage.table_context import TableContext

_MOST_IDS = 10_000


def hold(context: TableContext, records: DataFrame, kind: Kind) -> DataFrame:
    """Decode records and hold them, by the schemas that are kept for the table and those that they tell of besides.

    Which they are is told by the held records: where some are new, the records are decoded again. Of a batch the
    registry has to say that those that are kept mean what they meant; a replay asks it nothing: what it does not know
    was rejected before. Raises ``RegistryError``.
    """
    table = context.table
    known = kept_schemas(context.settings, table)
    held = decode_records(records, table, known).localCheckpoint()
    if not table.has_schemas or kind == "replay":
        return held
    from lakehouse.ingest.schema_resolution import learn  # noqa: PLC0415 - what speaks to a registry is slow to import

    found = learn(context, known, _schemas_of(held), confirm=kind == "batch")
    if found.known.keys() > known.known.keys():
        held = decode_records(records, table, found).localCheckpoint()
    return _explained(held, found.unusable)


def _schemas_of(held: DataFrame) -> list[int]:
    """The ids of schemas that records tell, those of most records first."""
    counted = held.where(f"{staged.SCHEMA} IS NOT NULL").groupBy(staged.SCHEMA).count()
    ids = counted.orderBy(F.desc("count"), staged.SCHEMA).limit(_MOST_IDS).collect()
    return [int(each[0]) for each in ids]


def _explained(held: DataFrame, unusable: Mapping[int, str]) -> DataFrame:
    """The held records; those whose schema is known to be of no use are not decoded again to be told so."""
    if not unusable:
        return held
    asked = f"{staged.REASON} = 'unknown_schema' AND {staged.SCHEMA} IN ({', '.join(map(str, unusable))})"
    why = " ".join(f"WHEN {i} THEN {quoted(f'schema {i}: {said}'[:500])}" for i, said in unusable.items())
    return held.withColumns(
        {
            staged.DETAIL: F.expr(f"IF({asked}, CASE {staged.SCHEMA} {why} END, {staged.DETAIL})"),
            staged.REASON: F.expr(f"IF({asked}, 'unusable_schema', {staged.REASON})"),
        }
    )
