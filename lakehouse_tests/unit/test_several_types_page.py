"""The page about several types of records in one topic: its declarations take its records as it says."""

import re
from typing import Any

from lakehouse.decoding.one_record import Verdict
from lakehouse_tests.helpers.decoding.native import judge
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "several-topics.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Several types in one topic")[2]


def verdicts_of_example(index: int, *names: str) -> list[list[Verdict]]:
    """The verdicts of the tables of an example of the page on its records."""
    examples, records = (re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL) for kind in ("python", "json"))
    namespace: dict[str, Any] = {}
    run_examples("several-topics.md", examples, namespace)
    rules = [namespace[name].rules() for name in names]
    return [[judge(line.encode(), None, table_rules) for line in records[index].splitlines()] for table_rules in rules]


def test_each_table_of_the_page_takes_the_records_of_its_type() -> None:
    orders, refunds = verdicts_of_example(0, "orders", "refunds")
    assert [verdict.reason for verdict in orders] == [None, "filtered", "filtered"]
    assert [verdict.reason for verdict in refunds] == ["filtered", None, "filtered"]
    assert refunds[1].row == {"refund_id": 5, "order_id": 1}


def test_every_condition_of_a_list_on_the_page_must_hold() -> None:
    (stocks,) = verdicts_of_example(1, "stocks")
    assert [verdict.reason for verdict in stocks] == [None, "filtered", "filtered"]
