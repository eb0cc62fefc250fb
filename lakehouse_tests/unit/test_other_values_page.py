"""The page about texts, CSV and compressed values: its examples run in order and print what it says."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

from lakehouse.decoding.formats import FORMAT_KINDS
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "other-values.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_each_example_prints_its_row() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 7
    namespace: dict[str, Any] = {}
    for example, output in EXAMPLES:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(example, "other-values.md", "exec"), namespace)  # noqa: S102 - the page's own examples
        assert printed.getvalue() == output


def test_the_page_of_rejections_names_every_reason_of_its_formats() -> None:
    kinds = [kind for kind in FORMAT_KINDS if kind.__name__ in ("Text", "Csv", "Logfmt", "BigEndian", "Compressed")]
    assert len(kinds) == 5
    reasons = (ROOT / "docs" / "reference" / "rejections.md").read_text(encoding="utf-8")
    assert [reason for kind in kinds for reason in kind.reasons if f"| `{reason}` |" not in reasons] == []
