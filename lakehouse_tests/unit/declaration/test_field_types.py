"""A part of a declaration that is of another type than its field says is refused where it is declared, by name."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from lakehouse.declaration import Check, Column, Late, Measure, Month, RecordHeader, RecordKey
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.declaration.ratings import (
    ID,
    RATED_AT,
    TableFactory,
    declare,
    declare_reference,
    declare_rollup,
    with_column,
)

REFUSED: Sequence[tuple[TableFactory, str]] = [
    *[
        (lambda name=name, value=value: declare(**{name: value}), f"{name} is {said}, and not ")
        for name, value, said in [
            ("doc", 3, "text"),
            ("owner", None, "text"),
            ("file", None, "text"),
            ("version", 5, "text"),
            ("max_records", True, "a whole number"),
            ("format", None, "a Json or an Avro"),
            ("base", 5, "a Rows"),
            ("late", "rated_at", "a Late"),
            ("rollups", iter([ID]), "a list or tuple"),
            ("rollups", 5, "a list or tuple"),
            ("references", None, "a list or tuple"),
            ("columns", (each for each in [ID, RATED_AT]), "a list or tuple"),
            ("columns", {ID}, "a list or tuple"),
            ("key", (each for each in ["id"]), "a list or tuple"),
            ("key", {"id"}, "a list or tuple"),
            ("key", {"id": 1}, "a list or tuple"),
            ("key", None, "a list or tuple"),
        ]
    ],
    (lambda: declare("n"), "columns: each is a Column, and not 'n'"),  # type: ignore[arg-type]
    (lambda: declare(rollups=["n"]), "rollups: each is a Rollup, and not 'n'"),
    (lambda: declare(checks=["n"]), "checks: each is a Check, and not 'n'"),
    (lambda: declare(checks=[Check("n", "id > 0", "", "fatal")]), "check n: severity is warn or error"),  # type: ignore[arg-type]
    (with_column(name=5), "name is text, and not 5"),
    (with_column(type_=None), "column n: type is text, and not None"),
    (lambda: declare(Column("n", "INT", doc=3)), "column n: doc is text, and not 3"),  # type: ignore[arg-type]
    (with_column(required="yes"), "column n: required is True or False, and not 'yes'"),
    (with_column(keep=1), "column n: keep is True or False, and not 1"),
    (
        with_column(source=5),
        "column n: source is text or a list or tuple or a RecordKey or .*BrokerTime, and not 5",
    ),
    (with_column(pattern=5), "column n: pattern is text, and not 5"),
    (with_column(between=5), "column n: between is a list or tuple, and not 5"),
    (with_column(between="05"), "column n: between is a list or tuple, and not '05'"),
    (lambda: declare(late=Late(5, timedelta(1))), "late: column is text, and not 5"),  # type: ignore[arg-type]
    (lambda: declare(partition_by=Month(None)), "partition_by: column is text"),  # type: ignore[arg-type]
    (lambda: declare_rollup(by=(each for each in ["id"])), "rollup by_movie: by is a list or tuple"),
    (lambda: declare_rollup(by="id"), "rollup by_movie: by is a list or tuple"),
    (lambda: declare_rollup(measures=["n"]), "rollup by_movie: measures is a dict"),
    (
        lambda: declare_rollup(measures={5: Measure("1", "INT", "")}),
        "rollup by_movie: measures: each name is text, and not 5",
    ),
    (lambda: declare_rollup(measures={"n": Measure(None, "INT", "")}), "measure n: sql is text"),  # type: ignore[arg-type]
    (lambda: declare_reference(file="movies.jsonl"), "reference movies: file is a Path, and not 'movies"),
    (lambda: declare_reference(key="id"), "reference movies: key is a list or tuple"),
    (lambda: declare_reference(columns=(each for each in [ID])), "reference movies: columns is a list or tuple"),
    (lambda: declare_reference(Column("n", None, "")), "reference movies: column n: type is text"),  # type: ignore[arg-type]
    (
        with_column(type_="TIMESTAMP", epoch="hours"),
        "column n: epoch is seconds or milliseconds or microseconds or days",
    ),
    (with_column(source=RecordHeader(5)), "column n: source: name is text, and not 5"),  # type: ignore[arg-type]
    (with_column(source=("a", 5)), "column n: source: each is text, and not 5"),
    (with_column(source=RecordKey("bytes")), "column n: source: written is text or any_text"),  # type: ignore[arg-type]
    (lambda: declare(retention=None), "retention is a timedelta"),
    (lambda: declare(late=Late("rated_at", timedelta(1), "drop")), "late: policy is accept or reject"),  # type: ignore[arg-type]
    (lambda: declare(gaps="ignore"), "gaps is stop or accept"),
    (lambda: declare(late=Late("rated_at", 7)), "late: after is a timedelta"),  # type: ignore[arg-type]
    (lambda: declare(partitions="3"), "partitions is a whole number"),
]


@pytest.mark.parametrize(("made", "said"), REFUSED, ids=[said[:60] for _, said in REFUSED])
def test_a_part_of_another_type_is_refused(made: TableFactory, said: str) -> None:
    with pytest.raises(DeclarationError, match=said) as refused:
        made()
    assert refused.value.what.startswith("Table 'ratings': ")
    assert refused.value.action.startswith("Declare ")


def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="Table None: name is text, and not None"):
        declare(name=None)
