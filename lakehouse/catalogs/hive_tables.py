"""What AWS Glue and a Hive metastore share: the names, comments, properties and formats of a table of Hive."""

from collections import Counter
from dataclasses import replace

from lakehouse.catalogs.registration import TABLE_ID, Registration
from lakehouse.errors import CatalogError

_MOST_CHARACTERS, _MOST_OF_DOC = 255, 2048  # of a comment, and of the description
# what Spark writes for a table of Delta; readers of Delta ignore the formats
INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_PROPERTIES = {
    "EXTERNAL": "TRUE",
    "table_type": "DELTA",  # Athena
    "spark.sql.sources.provider": "delta",  # Spark and Trino
}


def fit_to_hive(registration: Registration, place: str) -> Registration:
    """Return a registration as Hive holds it: lower-case names, short comments, no nullability.

    Raises ``CatalogError`` if columns differ only by the case of their names.
    """
    counts = Counter(column.name.lower() for column in registration.columns)
    if same := [column.name for column in registration.columns if counts[column.name.lower()] > 1]:
        raise CatalogError(
            f"Columns of {registration.name} differ only by case: {', '.join(same)}",
            where=place,
            action="The catalog has only lower-case names. Rename one of them.",
        )
    columns = (
        replace(
            column,
            name=column.name.lower(),
            type=column.type.replace("timestamp_ntz", "timestamp"),  # Hive has only one type, without a zone
            comment=_short(column.comment, _MOST_CHARACTERS),
            nullable=True,
        )
        for column in registration.columns
    )
    return replace(registration, columns=tuple(columns), doc=_short(registration.doc, _MOST_OF_DOC))


def hive_properties(registration: Registration) -> dict[str, str]:
    """Return the properties of a table by which readers find that it is one of Delta, and we that it is ours."""
    return {**_PROPERTIES, TABLE_ID: registration.table_id}


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
