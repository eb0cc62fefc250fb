"""The page about several types of records in one topic: its declarations take its records as it says."""

import re
from typing import Any

from lakehouse.decoding.judge import judge
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "several-types.md").read_text(encoding="utf-8")


def test_each_table_of_the_page_takes_the_records_of_its_type() -> None:
    (declarations,), (records,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "json"))
    namespace: dict[str, Any] = {}
    exec(compile(declarations, "several-types.md", "exec"), namespace)  # noqa: S102 - the page's own example
    verdicts = {
        name: [judge(line.encode(), None, namespace[name].rules()) for line in records.splitlines()]
        for name in ("orders", "refunds")
    }
    reasons = {name: [verdict.reason for verdict in of_table] for name, of_table in verdicts.items()}
    assert reasons == {"orders": [None, "filtered", "filtered"], "refunds": ["filtered", None, "filtered"]}
    assert verdicts["refunds"][1].row == {"refund_id": 5, "order_id": 1}
