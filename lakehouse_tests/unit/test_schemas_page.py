"""The page about records with schemas: its examples run one after the other, and print what the page shows."""

import re

from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "schemas.md").read_text(encoding="utf-8")


def test_the_examples_of_the_page_print_the_documented_rows() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    shown_rows = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == len(shown_rows) == 5
    assert run_examples("schemas.md", examples, {"__name__": "orders", "__file__": "orders.py"}) == shown_rows
