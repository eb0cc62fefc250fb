"""A wrong rule, seen after the merge: the records are read again by the right one, or the table is built again."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says, output_of, read_json_output

DECLARATION = """
from lakehouse import Column, Measure, Rollup, StreamTable, TextNumber

orders = StreamTable(
    "orders", "orders", "Orders.", key=["{key}"],
    columns=[
        Column("order_id", "BIGINT", required=True, doc=""),
        Column("place", "STRING", required=True, doc=""),
        Column("amount", "DECIMAL(12,2)", written={written}, doc=""),
    ],
    rollups=[Rollup("orders_by_place", ["place"], {{"total": Measure("sum(amount)", "DECIMAL(22,2)", "")}}, doc="")],
)
"""
WRONG, RIGHT = 'TextNumber(decimal=",")', 'TextNumber(thousands=",")'
RECORDS = (
    '{"order_id": 1, "place": "a", "amount": "1,000"}\n'
    '{"order_id": 2, "place": "a", "amount": "2,50"}\n'
    '{"order_id": 3, "place": "b", "amount": "3.5"}\n'
    '{"order_id": 4, "place": "b", "amount": "400"}\n'
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """A home with a running broker; commands use the session that all tests share."""
    home = tmp_path_factory.mktemp("wrong")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(home))
        patch.setenv("LAKEHOUSE_DECLARATIONS", "")
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        with running_broker(Settings(home=home, _env_file=None)):
            yield home


def declare(lake: Path, written: str, key: str = "order_id") -> None:
    """Edit the declaration; a process reads each file once, so that this is another one."""
    folder = lake / f"declarations_{len([*lake.glob('declarations_*')])}"
    folder.mkdir()
    (folder / "wrong_orders.py").write_text(DECLARATION.format(written=written, key=key))
    os.environ["LAKEHOUSE_DECLARATIONS"] = str(folder)


def rows(sql: str) -> list[list[Any]]:
    return [list(row.values()) for row in read_json_output("query", sql)]


def amounts() -> list[list[Any]]:
    return rows("SELECT order_id, CAST(amount AS VARCHAR) FROM orders ORDER BY 1")


def totals() -> list[list[Any]]:
    return rows("SELECT place, CAST(total AS VARCHAR) FROM orders_by_place ORDER BY 1")


@pytest.fixture(scope="module")
def corrected(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outputs of the commands that find and correct what a wrong rule read."""
    records = tmp_path_factory.mktemp("records") / "orders.jsonl"
    records.write_text(RECORDS)
    declare(lake, WRONG)
    output_of("publish", "orders", str(records), "--force", "--partitions", "1")
    outputs = {"merged": read_json_output("merge", "orders"), "wrong": amounts()}
    declare(lake, RIGHT)
    outputs["replayed"] = read_json_output("replay", "orders")
    outputs["plan"] = output_of("plan", "orders", "--quick")
    outputs["again"] = read_json_output("replay", "orders", "--again")
    outputs |= {"right": amounts(), "totals": totals(), "plan after": output_of("plan", "orders", "--quick")}
    outputs["second"] = read_json_output("replay", "orders", "--again")
    return outputs


def test_a_replay_does_not_correct_what_a_wrong_rule_read(corrected: dict[str, Any]) -> None:
    assert corrected["wrong"] == [[1, "1.00"], [2, "2.50"], [4, "400.00"]]
    (replayed,) = corrected["replayed"]["batches"]
    assert (replayed["inserted"], replayed["updated"], replayed["deleted"]) == (1, 0, 0)


def test_plan_counts_the_rows_of_an_earlier_declaration_and_names_the_command(corrected: dict[str, Any]) -> None:
    plan = " ".join(corrected["plan"].split())
    assert "4 rows were read by an earlier declaration" in plan
    assert "lakehouse replay orders --again" in plan
    assert "read again" not in corrected["plan after"]


def test_records_that_are_read_again_correct_their_rows(corrected: dict[str, Any]) -> None:
    batch = corrected["again"]["batches"][0]
    figures = ("kind", "read", "rejected", "updated", "deleted", "corrected", "withdrawn")
    assert [batch[name] for name in figures] == ["correction", 4, 1, 1, 1, 2, 1]
    assert corrected["right"] == [[1, "1000.00"], [3, "3.50"], [4, "400.00"]]
    assert corrected["totals"] == [["a", "1000.00"], ["b", "403.50"]]


def test_the_feed_has_what_was_corrected(corrected: dict[str, Any]) -> None:
    changes = rows("SELECT order_id, change FROM orders_changes WHERE change <> 'insert' ORDER BY 1")
    assert changes == [[1, "update"], [2, "delete"]]


def test_a_record_that_is_rejected_by_now_is_listed(corrected: dict[str, Any]) -> None:
    (table,) = read_json_output("rejected", "orders")
    (sample,) = [sample for reason in table["reasons"] for sample in reason["samples"]]
    assert '"order_id": 2' in sample["value"]


def test_a_second_run_corrects_nothing(corrected: dict[str, Any]) -> None:
    batch = corrected["second"]["batches"][0]
    assert (batch["corrected"], batch["updated"], batch["deleted"], batch["stale"]) == (0, 0, 0, 3)
    assert all(finding["passed"] for table in read_json_output("audit") for finding in table["findings"])


def test_a_table_is_built_again_by_another_key_and_switched_back(corrected: dict[str, Any], lake: Path) -> None:
    declare(lake, RIGHT, key="place")
    refused_plan = lakehouse_says("plan", "orders", "--quick")
    assert refused_plan.code == 1
    assert "lakehouse rebuild orders" in " ".join(refused_plan.err.split())
    output_of("rebuild", "orders", "--yes")
    assert amounts() == [[1, "1000.00"], [4, "400.00"]]
    assert totals() == [["a", "1000.00"], ["b", "400.00"]]
    assert lakehouse_says("merge", "orders", "--fail-if-idle").code == 3
    output_of("rebuild", "orders", "--undo")
    declare(lake, RIGHT)
    assert amounts() == corrected["right"]
    assert lakehouse_says("merge", "orders", "--fail-if-idle").code == 3
    assert not [*lake.glob("tables/.rebuilt/orders/*")]
