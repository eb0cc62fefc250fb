"""The page about the start of a table: its declarations are accepted, and it quotes what the commands print."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.cli.show import _left_out_text
from lakehouse.declaration.sources import start_time
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.tables import redeclare

PAGE = (ROOT / "docs" / "how-to" / "add-a-topic.md").read_text(encoding="utf-8")


def declared_table() -> Any:
    (declaration,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(declaration, "add-a-topic.md", "exec"), namespace)  # noqa: S102 - the page's own example
    return namespace["orders"]


def test_the_table_of_the_page_starts_at_its_time() -> None:
    assert start_time(declared_table().start) == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("start", ['"2026-11-01T00:00:00Z"', '"latest"', "{0: 1200, 1: 900}"])
def test_every_form_of_the_page_is_accepted(start: str) -> None:
    assert f"| `{start}`" in PAGE
    assert redeclare(declared_table(), start=eval(start)).start  # noqa: S307 - the page's own example


def test_the_page_quotes_the_line_of_the_commands() -> None:
    assert _left_out_text({0: [0, 1200], 1: [300, 900]}) in PAGE
