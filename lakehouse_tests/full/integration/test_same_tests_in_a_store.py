"""Tests of tables on a disk, and random histories, with the tables in a real object store."""

from collections.abc import Iterator

import pytest

from lakehouse_tests.conftest import TABLES
from lakehouse_tests.helpers import same_tests
from lakehouse_tests.helpers.tables.seaweed import running_store
from lakehouse_tests.helpers.tables.stores import BUCKET


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """The variable with which the tests have their tables in a store, whose address and keys are set."""
    with running_store():
        yield {TABLES: f"s3://{BUCKET}/tests"}


@pytest.mark.timeout(900)
def test_the_merge_path_is_the_same_in_a_store(environment: dict[str, str]) -> None:
    same_tests.require_passed(environment, same_tests.STORE)


@pytest.mark.timeout(1800)
def test_random_histories_give_the_same_tables_in_a_store(environment: dict[str, str]) -> None:
    same_tests.require_passed(environment, same_tests.STORE_HISTORIES)
