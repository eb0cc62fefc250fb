"""Who writes few rows: deltalake, or Spark as it writes many."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakehouse.delta import plain


@contextmanager
def by_spark(really: bool = True) -> Iterator[None]:
    """Spark writes everything here."""
    with pytest.MonkeyPatch.context() as patch:
        if really:
            patch.setattr(plain, "MOST_ROWS", -1)
        yield
