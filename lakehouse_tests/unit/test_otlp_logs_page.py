"""The examples of the page on logs of OpenTelemetry run, and print what the page shows."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest

from lakehouse.declaration.inference.open_telemetry import LOGS_NOTE, ROWS_OF_LOGS
from lakehouse.declaration.inference.proposal import propose
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "otlp-logs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED_TEXTS = re.findall(r"```\n([^`]*?)```", re.sub(r"```python\n.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)


def run_examples() -> tuple[list[str], dict[str, Any]]:
    namespace: dict[str, Any] = {}
    outputs = []
    for example in EXAMPLES:
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(example, "otlp-logs.md", "exec"), namespace)  # noqa: S102 - the page's own examples
        outputs.append(out.getvalue())
    return outputs, namespace


@pytest.mark.invariant("8.15")
def test_the_examples_print_the_documented_rows() -> None:
    outputs, _ = run_examples()
    assert outputs == PRINTED_TEXTS
    assert len(outputs) == 2


def test_the_records_of_the_page_are_proposed_as_logs() -> None:
    _, namespace = run_examples()
    proposal = propose([namespace["record"]])
    assert (proposal.rows_from, proposal.key, proposal.warnings) == (ROWS_OF_LOGS, (), (LOGS_NOTE,))
    declared_names = {column.source for column in namespace["logs"].columns if isinstance(column.source, str)}
    assert declared_names <= {column.source for column in proposal.columns}
