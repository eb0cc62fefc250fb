"""The page about several topics in one table: its declaration gives the row that it shows."""

import re
from decimal import Decimal
from typing import Any

import duckdb

from lakehouse.declaration import StreamTable, TopicPattern
from lakehouse.declaration.sql import computed_sql
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "several-topics.md").read_text(encoding="utf-8")


def test_a_record_of_the_page_becomes_its_row() -> None:
    namespace: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:3]:
        exec(compile(example, "several-topics.md", "exec"), namespace)  # noqa: S102 - the page's own examples
    orders: StreamTable = namespace["orders"]
    record, topic = re.findall(r"The record `(.*?)` of topic `(.*?)`", PAGE)[0]
    row = orders.in_topic(topic).decode(record.encode())
    cells = [cell.strip() for cell in re.findall(r"^\| 7 \|.*$", PAGE, re.MULTILINE)[0].strip("|").split("|")]
    assert row == {"order_id": int(cells[0]), "total": Decimal(cells[1]), "topic": cells[2]}
    assert namespace["topics"].matching(["orders-eu", "old-orders-eu"]) == ["orders-eu"]


def test_the_region_of_the_page_is_computed_from_the_name_of_the_topic() -> None:
    namespace: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:2]:
        exec(compile(example, "several-topics.md", "exec"), namespace)  # noqa: S102 - the page's own examples
    table: StreamTable = namespace["by_region"]
    topic, region = re.findall(r"An order of the topic `(.*?)` has the region `(.*?)`", PAGE)[0]
    row = table.in_topic(topic).decode(b'{"order_id": 7}')
    sql = computed_sql(namespace["region"].sql, "STRING", {"topic": "STRING"}).replace("`", '"')
    assert duckdb.execute(f"SELECT {sql} FROM (SELECT ? AS topic)", [row["topic"]]).fetchone() == (region,)


def test_the_pattern_of_the_page_excludes_a_topic() -> None:
    (pattern,) = re.findall(r'exclude it:\s+`TopicPattern\("(.*?)"\)', PAGE)
    assert TopicPattern(pattern).matching(["orders-old", "orders-older", "orders-us"]) == ["orders-older", "orders-us"]
