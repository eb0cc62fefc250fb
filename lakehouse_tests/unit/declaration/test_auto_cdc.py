"""Flows of AUTO CDC, read from files of Python and SQL."""

import re

import pytest

from lakehouse.declaration import FieldIs
from lakehouse.declaration.inference.auto_cdc.flow import AutoCdcFlow
from lakehouse.declaration.inference.auto_cdc.select import read_flow
from lakehouse.errors import LakehouseError

SQL = """
-- KEYS (comment)
CREATE OR REFRESH STREAMING TABLE target;
CREATE FLOW f AS AUTO CDC INTO catalog.shop.target
FROM stream(cdc_data.users) KEYS (userId, `the shop`) IGNORE NULL UPDATES
APPLY AS DELETE WHEN operation = "DELETE" APPLY AS TRUNCATE WHEN operation IN ('TRUNCATE', 't')
SEQUENCE BY sequenceNum COLUMNS * EXCEPT (operation, sequenceNum) STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (city)
"""
PYTHON = """
raise SystemExit("the file is never run")
dp.create_streaming_table("target")
dp.create_auto_cdc_flow(
    target="catalog.shop.target", source="cdc_data.users", keys=["userId", col("the shop")], name="f",
    sequence_by=F.col("sequenceNum"), apply_as_deletes=expr("operation = 'DELETE'"), once=False,
    apply_as_truncates=col("operation").isin("TRUNCATE", "t"), except_column_list=["operation", "sequenceNum"],
    ignore_null_updates=True, column_list=None, stored_as_scd_type="2", track_history_except_column_list=["city"],
)
"""


def flow_of(text: str, suffix: str, table: str = "target") -> AutoCdcFlow:
    return read_flow(text, f"pipeline{suffix}", table)


def sql_flow(clauses: str) -> AutoCdcFlow:
    return flow_of(f"CREATE FLOW f AS AUTO CDC INTO target FROM stream(users) KEYS (id) {clauses}", ".sql")


def python_flow(arguments: str) -> AutoCdcFlow:
    return flow_of(f'dlt.apply_changes("target", "users", ["id"], {arguments})', ".py")


@pytest.mark.parametrize(("text", "suffix", "line"), [(SQL, ".sql", 4), (PYTHON, ".py", 4)], ids=["SQL", "Python"])
def test_every_option_of_a_flow_is_read(text: str, suffix: str, line: int) -> None:
    assert flow_of(text, suffix) == AutoCdcFlow(
        target="catalog.shop.target",
        place=f"pipeline{suffix}, line {line}",
        keys=("userId", "the shop"),
        sequence="sequenceNum",
        source="cdc_data.users",
        deletes=FieldIs("operation", ["DELETE"]),
        truncates=FieldIs("operation", ["TRUNCATE", "t"]),
        excluded=("operation", "sequenceNum"),
        ignores_nulls=True,
        scd_type=2,
        tracks_some=True,
    )


@pytest.mark.parametrize(
    "statement",
    [
        "APPLY CHANGES INTO live.target FROM stream(live.users) KEYS (id) SEQUENCE BY seq",
        "CREATE FLOW f AS AUTO CDC INTO ${catalog}.target FROM STREAM ${catalog}.users SEQUENCE BY seq KEYS id;",
        "create flow f as auto cdc into target from stream `users` keys (id) sequence by (seq) columns * CREATE TABLE",
        "CREATE OR REFRESH STREAMING TABLE target (id INT) FLOW AUTO CDC FROM stream(users) KEYS (id) SEQUENCE BY seq",
        "CREATE STREAMING TABLE IF NOT EXISTS a.target FLOW AUTO CDC FROM users KEYS (id) SEQUENCE BY seq",
    ],
)
def test_each_form_of_the_statement_is_read(statement: str) -> None:
    flow = flow_of(f"{statement}", ".sql")
    assert (flow.target.rpartition(".")[2], flow.topic, flow.keys, flow.sequence) == ("target", "users", ("id",), "seq")
    assert (flow.included, flow.excluded, flow.scd_type) == (None, (), 1)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("operation = 'DELETE'", FieldIs("operation", ["DELETE"])),
        ("('DELETE' = operation)", FieldIs("operation", ["DELETE"])),
        ("operation IN ('D', 3, -1)", FieldIs("operation", ["D", 3, -1])),
        ("op = 'D' OR op IN ('D', 'd')", FieldIs("op", ["D", "d"])),
        ("source.`the op`.code = 1", FieldIs(("source", "the op", "code"), [1])),
        ("is_deleted = true", FieldIs("is_deleted", [True])),
        ("is_deleted", FieldIs("is_deleted", [True])),
        ('op = "it\'s"', FieldIs("op", ["it's"])),
    ],
)
def test_a_comparison_of_one_field_is_translated(condition: str, expected: FieldIs) -> None:
    deletes = sql_flow(f"APPLY AS DELETE WHEN {condition} SEQUENCE BY seq").deletes
    assert deletes == expected and list(map(type, deletes.values)) == list(map(type, expected.values))
    assert python_flow(f"sequence_by='seq', apply_as_deletes={condition!r}").deletes == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("col('op') == 'D'", FieldIs("op", ["D"])),
        ("lit('D') == F.col('op')", FieldIs("op", ["D"])),
        ("(col('op') == 'D') | (col('op') == lit(-2))", FieldIs("op", ["D", -2])),
        ("col('op').isin(['D', 'd'])", FieldIs("op", ["D", "d"])),
        ("col('source.op') == True", FieldIs(("source", "op"), [True])),
        ("col('is_deleted')", FieldIs("is_deleted", [True])),
        ("col('`a.b`') == 1", FieldIs("a.b", [1])),
    ],
)
def test_a_column_of_spark_is_translated(condition: str, expected: FieldIs) -> None:
    assert python_flow(f"sequence_by=col('seq'), apply_as_deletes={condition}").deletes == expected


@pytest.mark.parametrize(
    "condition",
    [
        "lower(operation) = 'delete'",
        "operation != 'INSERT'",
        "op = 'D' AND is_final",
        "op = 'D' OR kind = 'D'",
        "op IS NULL",
        "op = NULL",
        "op IN ('D', NULL)",
        "op IN (SELECT 1)",
        "op = other",
        "price = 1.5",
        "a.b.c.d.e = 1",
        "op = ",
        "",
    ],
)
def test_another_condition_is_refused_with_its_place_and_its_text(condition: str) -> None:
    with pytest.raises(LakehouseError) as error:
        sql_flow(f"SEQUENCE BY seq APPLY AS DELETE WHEN {condition}")
    assert error.value.where == "pipeline.sql, line 1"
    assert error.value.what.startswith("APPLY AS DELETE WHEN cannot be translated:")
    assert error.value.action
    with pytest.raises(LakehouseError, match=r"apply_as_truncates= cannot be translated.*pipeline.py, line 1"):
        python_flow(f"sequence_by='seq', apply_as_truncates=expr({condition!r})")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("sequence_by=struct('a', 'b')", "sequence_by= cannot be translated: struct('a', 'b')"),
        ("sequence_by='struct(a, b)'", "One column orders the rows of a table"),
        ("sequence_by=col('a.b')", "sequence_by= cannot be translated: `a`.`b`"),
        ("sequence_by=SEQUENCE", "sequence_by= cannot be translated: SEQUENCE"),
        ("sequence_by='s', apply_as_deletes=~col('a')", "cannot be translated: ~col('a')"),
        ("sequence_by='s', apply_as_deletes=col('a') == b'x'", "cannot be translated: b'x'"),
        ("sequence_by='s', stored_as_scd_type=3", "The SCD type cannot be translated: 3"),
        ("sequence_by='s', columns_to_update=['a']", "An option cannot be translated: columns_to_update=['a']"),
        ("sequence_by='s', ignore_null_updates=FLAG", "ignore_null_updates= cannot be translated: FLAG"),
        ("sequence_by='s', column_list=NAMES", "column_list= cannot be translated: NAMES"),
        ("sequence_by='s', except_column_list=[]", "except_column_list= cannot be translated: []"),
        ("**options", "An argument cannot be translated: **options"),
        ("'s', None", "An argument without a name cannot be translated: None"),
        ("once=True", "has no sequence"),
    ],
)
def test_an_argument_that_cannot_be_translated_is_an_error(arguments: str, message: str) -> None:
    with pytest.raises(LakehouseError, match=re.escape(message)):
        python_flow(arguments)


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("SEQUENCE BY STRUCT(a, b)", "SEQUENCE BY cannot be translated"),
        ("SEQUENCE BY a.b", "SEQUENCE BY cannot be translated: a.b"),
        ("SEQUENCE BY a SEQUENCE BY b", "A clause that is listed twice cannot be translated: SEQUENCE BY"),
        ("SEQUENCE BY a STORED AS SCD TYPE 3", "The SCD type cannot be translated: 3"),
        ("SEQUENCE BY a COLUMNS (a, b.c)", "COLUMNS cannot be translated: (a, b.c)"),
        ("SEQUENCE BY a COLUMNS (a b)", "COLUMNS cannot be translated: (a b)"),
        ("SEQUENCE BY a IGNORE NULL UPDATES ON (b)", "IGNORE NULL UPDATES cannot be translated: ON (b)"),
        ("SYSTEM SEQUENCE BY a", "KEYS cannot be translated: (id) SYSTEM"),
        ("APPLY AS DELETE WHEN a", "has no sequence"),
    ],
)
def test_a_clause_that_cannot_be_translated_is_an_error(clauses: str, message: str) -> None:
    with pytest.raises(LakehouseError, match=re.escape(message)):
        sql_flow(clauses)


def test_a_quoted_keyword_is_a_name() -> None:
    flow = sql_flow("SEQUENCE BY `columns` COLUMNS (`from`, keys)")
    assert (flow.sequence, flow.included) == ("columns", ("from", "keys"))


def test_a_query_as_the_source_is_refused() -> None:
    text = "APPLY CHANGES INTO t FROM (SELECT * FROM users WHERE id > 1) KEYS (id) SEQUENCE BY s"
    with pytest.raises(LakehouseError, match="FROM cannot be translated: .SELECT"):
        flow_of(text, ".sql")


def test_a_computed_source_is_unknown_and_other_computed_names_do_not_matter() -> None:
    flow = flow_of(
        'dp.create_auto_cdc_flow(f"{c}.t", source=f"{c}.users", keys=["id"], sequence_by="s", name=n)', ".py"
    )
    assert (flow.target, flow.source, flow.topic) == ("", None, "")


SEVERAL = "\n".join(
    f"APPLY CHANGES INTO shop.{target} FROM stream({target}) KEYS (id) SEQUENCE BY {sequence};"
    for target, sequence in [("userStates", "s"), ("items", "struct(a, b)"), ("orders", "s"), ("orders", "s")]
)


def test_of_several_flows_the_one_is_translated_whose_target_is_the_table() -> None:
    assert flow_of(SEVERAL, ".sql", "user_states").place == "pipeline.sql, line 1"
    assert flow_of(SEVERAL, ".sql", "userstates").topic == "userStates"
    with pytest.raises(LakehouseError, match="SEQUENCE BY cannot"):
        flow_of(SEVERAL, ".sql", "items")


@pytest.mark.parametrize(
    ("table", "message"),
    [("shops", "None of the flows has the target shops"), ("orders", "2 of the 4 flows have the target orders")],
)
def test_if_no_flow_or_several_flows_are_meant_the_error_lists_the_targets(table: str, message: str) -> None:
    with pytest.raises(LakehouseError, match=message) as error:
        flow_of(SEVERAL, ".sql", table)
    assert "shop.userStates, shop.items, shop.orders, shop.orders" in error.value.what


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("p.py", "x = 1", "The file has no flow of AUTO CDC"),
        ("p.sql", "SELECT 1; CREATE TABLE auto (cdc INT)", "The file has no flow of AUTO CDC"),
        ("p.py", "x = (", "The file cannot be read as Python: .* p.py, line 1"),
        ("p.py", "x = '\0'", "The file cannot be read as Python"),
        ("p.sql", "SELECT 'open", "The file cannot be read as SQL"),
        ("p.scala", "", "The type of the file is unknown"),
        ("folder.d/pipeline", "", "The type of the file is unknown"),
    ],
)
def test_a_file_without_a_flow_is_an_error(file: str, text: str, message: str) -> None:
    with pytest.raises(LakehouseError, match=message.replace(".* p", r".*\(p")):
        read_flow(text, file, "t")
