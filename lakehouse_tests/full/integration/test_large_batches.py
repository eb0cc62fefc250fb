"""Small and large batches have different plans and give the same tables: small tests run with large plans."""

import pytest

from lakehouse_tests.conftest import PLANS
from lakehouse_tests.helpers import same_tests


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("limit", ["FEW_ROWS", "VERY_FEW_ROWS", ""], ids=["many", "some", "few, by Spark"])
def test_the_plans_of_larger_batches_give_the_same_rows_and_counts(limit: str) -> None:
    same_tests.require_passed({PLANS: limit}, same_tests.PLANS)
