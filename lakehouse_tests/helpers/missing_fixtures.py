"""Refuse tests that request a fixture that does not exist as soon as they are collected: the long tests rarely run."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing_names = {
        f"{item.nodeid} requests the fixture {name}, which does not exist"
        for item in items
        if isinstance(item, pytest.Function)
        for name in item.fixturenames
        if name != "request" and name not in item._fixtureinfo.name2fixturedefs
    }
    if missing_names:
        raise pytest.UsageError("\n".join(sorted(missing_names)))
