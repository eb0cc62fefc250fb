"""The page about envelopes: its examples run in order and print what it says."""

import re

from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "envelopes.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_each_example_prints_its_row() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 5
    assert run_examples("envelopes.md", [example for example, _ in EXAMPLES], {}) == [output for _, output in EXAMPLES]
