"""A part of a declaration that does not have the type of its field is refused when it is declared."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from lakehouse.declaration import (
    Check,
    Column,
    Compressed,
    Csv,
    FieldIs,
    Json,
    Late,
    Measure,
    Month,
    RecordHeader,
    RecordKey,
    Time,
    Topic,
    Topics,
    Upkeep,
)
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.declaration.ratings import (
    ID,
    RATED_AT,
    TableFactory,
    declare,
    declare_reference,
    declare_rollup,
    with_column,
    with_columns,
)

REFUSALS: Sequence[tuple[TableFactory, str]] = [
    *[
        (lambda name=name, value=value: declare(**{name: value}), f"{name} must be {noun}, not ")
        for name, value, noun in [
            ("doc", 3, "a string"),
            ("owner", None, "a string"),
            ("file", None, "a string"),
            ("version", 5, "a string or a Version"),
            ("max_records", True, "an integer"),
            ("source", 5, "a Topic, a Topics, a TopicPattern, a Files, a TableRows or a Generated"),
            ("deletes", None, "a Deletes"),
            (
                "format",
                None,
                "a Json, an Avro, a Protobuf, a Debezium, a ConnectJson, a Text, a Csv, a Logfmt, a Regex, a"
                " FixedWidth, a BigEndian or a"
                " Compressed",
            ),
            ("base", 5, "a Rows"),
            ("late", "rated_at", "a Late"),
            ("rollups", iter([ID]), "a list or tuple"),
            ("rollups", 5, "a list or tuple"),
            ("references", None, "a list or tuple"),
            ("columns", (item for item in [ID, RATED_AT]), "a list or tuple"),
            ("columns", {ID}, "a list or tuple"),
            ("key", (name for name in ["id"]), "a list or tuple"),
            ("key", {"id"}, "a list or tuple"),
            ("key", {"id": 1}, "a list or tuple"),
            ("key", 5, "a list or tuple"),
        ]
    ],
    (lambda: declare("n"), "columns: each item must be a Column or a Computed, not 'n'"),  # type: ignore[arg-type]
    (lambda: declare(rollups=["n"]), "rollups: each item must be a Rollup, not 'n'"),
    (lambda: declare(checks=["n"]), "checks: each item must be a Check, not 'n'"),
    (lambda: declare(checks=[Check("n", "id > 0", "", "fatal")]), "check n: severity must be warn or error"),  # type: ignore[arg-type]
    (
        with_columns(source=Topic("ratings", start=date(2026, 11, 1))),  # type: ignore[arg-type]
        "source: start must be a datetime, a string or a dict",
    ),
    (
        with_columns(source=Topics(["a"], start={0: 5})),  # type: ignore[arg-type]
        "source: start must be a datetime or a string, not",
    ),
    (lambda: declare(source=Topic("ratings", start={"0": 5})), "source: start: each key must be an integer, not '0'"),  # type: ignore[dict-item]
    (lambda: declare(source=Topic("ratings", start={True: 5})), "source: start: each key must be an integer, not True"),
    (lambda: declare(source=Topic("ratings", start={0: 1.5})), "source: start: each value must be an integer, not 1.5"),  # type: ignore[dict-item]
    (with_column(name=5), "name must be a string, not 5"),
    (with_column(type_=None), "column n: type must be a string, not None"),
    (lambda: declare(Column("n", "INT", doc=3)), "column n: doc must be a string, not 3"),  # type: ignore[arg-type]
    (with_column(required="yes"), "column n: required must be True or False, not 'yes'"),
    (with_column(keep=1), "column n: keep must be True or False, not 1"),
    (
        with_column(source=5),
        "column n: source must be a string, a list or tuple, a ValueOrObject, .* or an ElementIndex, not 5",
    ),
    (with_column(written=Time(5)), "column n: written: pattern must be a string, not 5"),  # type: ignore[arg-type]
    (with_column(between=5), "column n: between must be a list or tuple, not 5"),
    (with_column(between="05"), "column n: between must be a list or tuple, not '05'"),
    (lambda: declare(late=Late(5, timedelta(1))), "late: column must be a string, not 5"),  # type: ignore[arg-type]
    (lambda: declare(partition_by=Month(None)), "partition_by: column must be a string"),  # type: ignore[arg-type]
    (lambda: declare_rollup(by=(name for name in ["id"])), "rollup by_movie: by must be a list or tuple"),
    (with_columns(where="type"), "where must be a FieldIs, a HeaderIs, a SchemaIs or a list or tuple, not 'type'"),
    (with_columns(where=["type"]), "where: each item must be a FieldIs, a HeaderIs or a SchemaIs, not 'type'"),
    (
        with_columns(where=[FieldIs("type", "order")]),
        "where: each item: values must be a list or tuple, not 'order'",
    ),
    (lambda: declare_rollup(by="id"), "rollup by_movie: by must be a list or tuple"),
    (lambda: declare_rollup(measures=["n"]), "rollup by_movie: measures must be a dict"),
    (
        lambda: declare_rollup(measures={5: Measure("1", "INT", "")}),
        "rollup by_movie: measures: each name must be a string, not 5",
    ),
    (lambda: declare_rollup(measures={"n": Measure(None, "INT", "")}), "measure n: sql must be a string"),  # type: ignore[arg-type]
    (lambda: declare_reference(file="movies.jsonl"), "reference movies: file must be a Path, not 'movies"),
    (lambda: declare_reference(key="id"), "reference movies: key must be a list or tuple"),
    (
        lambda: declare_reference(columns=(column for column in [ID])),
        "reference movies: columns must be a list or tuple",
    ),
    (lambda: declare_reference(Column("n", None, "")), "reference movies: column n: type must be a string"),  # type: ignore[arg-type]
    (
        with_column(type_="TIMESTAMP", written=Time(epoch="hours")),  # type: ignore[arg-type]
        "column n: written: epoch must be seconds, milliseconds, microseconds, nanoseconds or days",
    ),
    (with_column(source=RecordHeader(5)), "column n: source: name must be a string, not 5"),  # type: ignore[arg-type]
    (with_column(source=("a", 5)), "column n: source: each item must be a string, not 5"),
    (
        with_column(source=RecordKey("bytes")),  # type: ignore[arg-type]
        "column n: source: written must be text, any_text, big_endian, json, framed_json, avro, protobuf,"
        " window_start or window_end",
    ),
    (lambda: declare(upkeep=Upkeep(retention=None)), "upkeep: retention must be a timedelta"),  # type: ignore[arg-type]
    (
        lambda: declare(source=Topic("ratings", replay_from="2026-08-01")),  # type: ignore[arg-type]
        "source: replay_from must be a date, not '2026-08-01'",
    ),
    (
        lambda: declare(source=Topic("ratings", replay_from=datetime(2026, 8, 1, tzinfo=UTC))),
        "source: replay_from must be a date, not datetime",
    ),
    (lambda: declare(late=Late("rated_at", timedelta(1), "drop")), "late: policy must be accept or reject"),  # type: ignore[arg-type]
    (lambda: declare(source=Topic("ratings", gaps="ignore")), "source: gaps must be stop or accept"),  # type: ignore[arg-type]
    (lambda: declare(late=Late("rated_at", 7)), "late: after must be a timedelta"),  # type: ignore[arg-type]
    (lambda: declare(source=Topic("ratings", partitions="3")), "source: partitions must be an integer"),  # type: ignore[arg-type]
    (lambda: declare(format=Json(encoding=5)), "format: encoding must be a string, not 5"),  # type: ignore[arg-type]
    (lambda: declare(format=Csv("id")), "format: columns must be a list or tuple, not 'id'"),
    (lambda: declare(format=Csv(["id", 5])), "format: columns: each item must be a string, not 5"),  # type: ignore[list-item]
    (lambda: declare(format=Compressed(Json(), "lz4")), "format: codec must be gzip or zstd, not 'lz4'"),  # type: ignore[arg-type]
    (lambda: declare(format=Compressed("Json", "gzip")), "format: written must be a Json, an Avro"),  # type: ignore[arg-type]
    (lambda: declare(format=Compressed(Csv("id"), "gzip")), "format: written: columns must be a list or tuple"),
]


@pytest.mark.parametrize(("make_table", "message"), REFUSALS, ids=[message[:60] for _, message in REFUSALS])
def test_a_part_of_another_type_is_refused(make_table: TableFactory, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as raised:
        make_table()
    assert raised.value.what.startswith("Table 'ratings': ")
    assert raised.value.action.startswith("Declare ")


def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="Table None: name must be a string, not None"):
        declare(name=None)
