"""The decoded records of a batch, held once and counted: what they are read by is learnt on the way."""

from pyspark.sql import DataFrame

from lakehouse.batch.decode import decode_records
from lakehouse.batch.schemas import kept_schemas
from lakehouse.delta.engine import Engine

_MOST_IDS = 10_000


def hold(engine: Engine, records: DataFrame, *, confirm: bool) -> DataFrame:
    """Decode records and hold them, by the schemas that are kept for the table and those that they tell of besides.

    Which they are is told by the held records: where some are new, the records are decoded again. With ``confirm``, the
    registry has to say that those that are kept mean what they meant. Raises ``RegistryError``.
    """
    table = engine.table
    known = kept_schemas(engine.settings, table)
    held = decode_records(records, table, known).localCheckpoint()
    if not table.has_schemas:
        return held
    from lakehouse.batch.learning import learn  # noqa: PLC0415 - what speaks to a registry is slow to import

    found = learn(engine, known, _schemas_of(held), confirm=confirm)
    return held if found is known else decode_records(records, table, found).localCheckpoint()


def _schemas_of(held: DataFrame) -> list[int]:
    """The ids of schemas that records tell, the least of them where they are more than anybody registers."""
    ids = held.where("_schema IS NOT NULL").select("_schema").distinct().orderBy("_schema").limit(_MOST_IDS)
    return [int(each[0]) for each in ids.collect()]
