"""The page about catalogs: its commands, typed in a new project, with a server that answers as AWS Glue does."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse_tests.helpers.glue_server import KEYS, glue_server
from lakehouse_tests.helpers.pages import HOW_TO, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

PAGE = HOW_TO / "catalogs.md"


@pytest.fixture
def glue() -> Iterator[tuple[str, Any]]:
    with glue_server() as (address, client):
        command = r"aws glue create-database --region REGION --database-input Name=(\w+)"
        (database,) = re.findall(command, PAGE.read_text("utf-8"))
        client.create_database(DatabaseInput={"Name": database})
        yield address, client


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_a_table_that_is_found_by_its_name(tmp_path: Path, glue: Any) -> None:
    address, client = glue
    variables = {name.upper(): value for name, value in KEYS.items()} | {"AWS_ENDPOINT_URL_GLUE": address}
    environment = user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT), **variables)
    install, *steps = [step for step in read_steps(PAGE) if step.language == "sh"]
    assert install.text.startswith("pip install ")
    assert TypedPage(tmp_path, environment).follow(steps) == []
    tables = {table["Name"]: table for table in client.get_tables(DatabaseName="lake")["TableList"]}
    assert sorted(tables) == ["readings", "readings_by_sensor", "readings_changes"]
    comments = {column["Name"]: column["Comment"] for column in tables["readings"]["StorageDescriptor"]["Columns"]}
    assert all(comments.values()), "every column of lakehouse has its meaning"
