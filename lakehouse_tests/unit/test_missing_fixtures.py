"""A test that requests a fixture that does not exist is refused when it is collected."""

import pytest

from lakehouse_tests.helpers.missing_fixtures import pytest_collection_modifyitems


def test_a_fixture_that_does_not_exist_is_named_with_its_test(request: pytest.FixtureRequest) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request.node, "fixturenames", ["request", "no_such_fixture"])
        with pytest.raises(pytest.UsageError, match="named_with_its_test requests the fixture no_such_fixture"):
            pytest_collection_modifyitems([request.node])


def test_existing_fixtures_are_accepted(request: pytest.FixtureRequest, tmp_path: object) -> None:
    pytest_collection_modifyitems([request.node])
