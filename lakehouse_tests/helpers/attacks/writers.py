"""Choose who writes few rows: deltalake, or Spark, which writes many rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.storage import eligibility, merge_spec, stored_table

_MOST_ROWS = eligibility.MOST_ROWS


@contextmanager
def by_spark(really: bool = True) -> Iterator[None]:
    """Let Spark write all rows inside the block, or restore the default if ``really`` is false."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligibility, "MOST_ROWS", -1 if really else _MOST_ROWS)
        yield


def one_more_row(patch: pytest.MonkeyPatch) -> None:
    """Make a rollup store one row more than it computed when it updates a group."""
    keyed_spec = merge_spec.keyed_spec

    def wrong_spec(*arguments: Any) -> Any:
        correct_spec = keyed_spec(*arguments)
        return replace(correct_spec, update=dict(correct_spec.update) | {"rows": "s.`rows` + 1"})

    patch.setattr(stored_table, "can_merge_quickly", lambda *_, **__: False)
    patch.setattr(stored_table, "keyed_spec", wrong_spec)
