"""Who writes few rows: deltalake, or Spark as it writes many."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakehouse.delta import plain

_MOST_ROWS = plain.MOST_ROWS


@contextmanager
def by_spark(really: bool = True) -> Iterator[None]:
    """Spark writes everything here; or it does not, whatever holds around it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "MOST_ROWS", -1 if really else _MOST_ROWS)
        yield
