"""The page about keys: its examples run in order and print what it says."""

import re
from typing import get_args

from lakehouse.decoding.record_parts import KeyEncoding
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "keys.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_each_example_prints_its_row() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 3
    assert run_examples("keys.md", [example for example, _ in EXAMPLES], {}) == [output for _, output in EXAMPLES]


def test_the_page_names_every_form_of_a_key() -> None:
    names = [name for name in get_args(KeyEncoding) if name != "text"]
    assert [name for name in names if f'`RecordKey("{name}"' not in PAGE] == []
