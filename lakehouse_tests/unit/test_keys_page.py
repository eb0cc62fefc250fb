"""The page about keys: its examples run in order and print what it says."""

import io
import re
from contextlib import redirect_stdout
from typing import Any, get_args

from lakehouse.decoding.record_parts import KeyEncoding
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "keys.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_each_example_prints_its_row() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 6
    namespace: dict[str, Any] = {}
    for example, output in EXAMPLES:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(example, "keys.md", "exec"), namespace)  # noqa: S102 - the page's own examples
        assert printed.getvalue() == output


def test_the_page_names_every_form_of_a_key() -> None:
    names = [name for name in get_args(KeyEncoding) if name != "text"]
    assert [name for name in names if f'`RecordKey("{name}"' not in PAGE] == []
