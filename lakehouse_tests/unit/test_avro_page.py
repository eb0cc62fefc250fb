"""The page about Avro: its examples run one after the other, and print what the page shows."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "avro.md").read_text(encoding="utf-8")


def test_the_examples_of_the_page_print_the_documented_rows() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    shown_rows = re.findall(r"```\n(\{.*?)```", PAGE, re.DOTALL)
    assert len(examples) == len(shown_rows) == 3
    names: dict[str, Any] = {"__name__": "orders", "__file__": "orders.py"}
    for example, rows in zip(examples, shown_rows, strict=True):
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(example, "avro.md", "exec"), names)  # noqa: S102 - the page's own example
        assert out.getvalue() == rows
