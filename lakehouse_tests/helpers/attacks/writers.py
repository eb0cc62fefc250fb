"""Who writes few rows: deltalake, or Spark as it writes many."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.storage import eligibility, merge_spec, stored_table

_MOST_ROWS = eligibility.MOST_ROWS


@contextmanager
def by_spark(really: bool = True) -> Iterator[None]:
    """Spark writes everything here; or it does not, whatever holds around it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligibility, "MOST_ROWS", -1 if really else _MOST_ROWS)
        yield


def one_more_row(patch: pytest.MonkeyPatch) -> None:
    """A rollup stores one more than it computed for a group that is there."""
    spec = merge_spec.keyed_spec

    def wrong(*given: Any) -> Any:
        right = spec(*given)
        return replace(right, update=dict(right.update) | {"rows": "s.`rows` + 1"})

    patch.setattr(stored_table, "is_quick_to_merge", lambda *_, **__: False)
    patch.setattr(stored_table, "keyed_spec", wrong)
