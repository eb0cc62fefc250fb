"""The examples of the page on records with many rows run, and print what the page shows."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "many-rows.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED_TEXTS = re.findall(r"```\n([^`]*?)```", re.sub(r"```python\n.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)


@pytest.mark.invariant("8.15")
def test_the_examples_print_the_documented_rows() -> None:
    namespace: dict[str, Any] = {}
    outputs = []
    for example in EXAMPLES:
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(example, "many-rows.md", "exec"), namespace)  # noqa: S102 - the page's own examples
        outputs.append(out.getvalue())
    assert outputs == PRINTED_TEXTS
    assert len(outputs) == 3
