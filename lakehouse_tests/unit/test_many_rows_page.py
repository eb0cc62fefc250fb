"""The examples of the page on records with many rows run, and print what the page shows."""

import re
from typing import Any

import pytest

from lakehouse.declaration.inference.proposal import propose
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "many-rows.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED_TEXTS = re.findall(r"```\n([^`]*?)```", re.sub(r"```python\n.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)


@pytest.mark.invariant("8.15")
def test_the_examples_print_the_documented_rows() -> None:
    outputs = run_examples("many-rows.md", EXAMPLES, {})
    assert outputs == PRINTED_TEXTS
    assert len(outputs) == 4


def test_new_table_names_the_rows_of_the_logs_of_open_telemetry() -> None:
    namespace: dict[str, Any] = {}
    run_examples("many-rows.md", EXAMPLES, namespace)
    path = ", ".join(f'"{name}"' for name in namespace["logs"].rows_from)
    assert f"({path})" in " ".join(propose([namespace["record"]]).warnings)
