"""The examples of the page on logs of OpenTelemetry run, and print what the page shows."""

import re
from typing import Any

import pytest

from lakehouse.declaration.inference.open_telemetry import LOGS_NOTE, ROWS_OF_LOGS
from lakehouse.declaration.inference.proposal import propose
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "otlp-logs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED_TEXTS = re.findall(r"```\n([^`]*?)```", re.sub(r"```python\n.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)


@pytest.mark.invariant("8.15")
def test_the_examples_print_the_documented_rows() -> None:
    outputs = run_examples("otlp-logs.md", EXAMPLES, {})
    assert outputs == PRINTED_TEXTS
    assert len(outputs) == 2


def test_the_records_of_the_page_are_proposed_as_logs() -> None:
    namespace: dict[str, Any] = {}
    run_examples("otlp-logs.md", EXAMPLES, namespace)
    proposal = propose([namespace["record"]])
    assert (proposal.rows_from, proposal.key, proposal.warnings) == (ROWS_OF_LOGS, (), (LOGS_NOTE,))
    declared_names = {column.source for column in namespace["logs"].columns if isinstance(column.source, str)}
    assert declared_names <= {column.source for column in proposal.columns}
