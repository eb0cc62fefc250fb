"""``topics`` leaves out tables that read no topic: there is nothing to create or to show of them."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from lakehouse_tests.helpers.commands import lakehouse_says, read_json_output
from lakehouse_tests.helpers.declaration_files import declare

DECLARATION = """
from lakehouse import Column, Generated, StreamTable

columns = [Column("hash", "BIGINT", "Hash.", required=True)]
only_generated = StreamTable(name="only_generated", doc="", columns=columns, key=["hash"], source=Generated())
"""


@pytest.mark.parametrize("options", [(), ("--create",)], ids=["shown", "created"])
def test_tables_that_read_no_topic_have_none(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path, monkeypatch, only_generated=DECLARATION)
    monkeypatch.setattr("lakehouse.cli.topics.broker", lambda *_, **__: nullcontext("127.0.0.1:9"))  # none runs there
    result = lakehouse_says("topics", *options)
    assert (result.code, result.out) == (0, "None of these tables reads a topic.\n"), result.err
    assert read_json_output("topics", *options)["topics"] == []
