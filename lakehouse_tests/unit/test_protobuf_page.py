"""The page about Protobuf: its example runs and prints what the page shows."""

import re

from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "protobuf.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_prints_the_documented_rows() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (rows_text,) = re.findall(r"```\n(\{.*?)```", PAGE, re.DOTALL)
    assert run_examples("protobuf.md", [example], {"__name__": "orders", "__file__": "orders.py"}) == [rows_text]
