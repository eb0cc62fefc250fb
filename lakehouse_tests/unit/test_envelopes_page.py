"""The page about envelopes: its examples run in order and print what it says."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "envelopes.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_each_example_prints_its_row() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 4
    namespace: dict[str, Any] = {}
    for example, output in EXAMPLES:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(example, "envelopes.md", "exec"), namespace)  # noqa: S102 - the page's own examples
        assert printed.getvalue() == output
