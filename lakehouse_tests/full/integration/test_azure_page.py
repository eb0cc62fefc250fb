"""The page about tables in Azure: its commands, typed in a new project, with a signature of the rights it names."""

import re
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from lakehouse_tests.helpers.pages import HOW_TO, Step, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.azurite import AzuriteStore, running_azurite
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

PAGE = HOW_TO / "azure.md"
STEPS = read_steps(PAGE)


@pytest.fixture
def azurite(monkeypatch: pytest.MonkeyPatch) -> Iterator[AzuriteStore]:
    with running_azurite() as store:
        for name in ("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_KEY"):
            monkeypatch.delenv(name)
        yield store


@pytest.fixture
def page(azurite: AzuriteStore, tmp_path: Path) -> Iterator[TypedPage]:
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT)))
    yield page
    page.stop()


def with_store(step: Step, store: AzuriteStore) -> Step:
    """A step with the address of the server of the test, and a signature with the rights of the page."""
    (rights,) = re.findall(r"--permissions (\w+)", PAGE.read_text(encoding="utf-8"))
    text = re.sub(r"abfss://.+(?=/lake)", store.root, step.text)
    settings = f"\\g<1>{store.signature(rights)}\nLAKEHOUSE_STORE_ENDPOINT={store.endpoint}"
    return step._replace(text=re.sub(r"(_SECRET_KEY=).+", settings, text))


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_tables_in_azure(page: TypedPage, azurite: AzuriteStore) -> None:
    install, *steps = takewhile(lambda step: step.language == "sh", STEPS)
    assert install.text.startswith("pip install ")
    assert page.follow(with_store(step, azurite) for step in steps) == []
    page.stop()
    assert {"readings", "readings_by_sensor", "readings_changes"} <= {*azurite.names("lake")}
