"""The page about JSON Schema: its example runs and prints what the page shows."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "json-schema.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_prints_the_documented_rows() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (rows_text,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "orders", "__file__": "orders.py"}
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(example, "json-schema.md", "exec"), names)  # noqa: S102 - the page's own example
    assert out.getvalue() == rows_text
