"""A batch that dies between the commit of its deletes and the commit of its rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakehouse.ingest import deletes, merge


class DiedError(Exception):
    """The process died."""


@contextmanager
def dying_after_deletes() -> Iterator[None]:
    """Die after new deletes were stored; a batch without new deletes lives."""
    store_deletes = deletes.store_deletes

    def store_and_die(*arguments: Any) -> None:
        store_deletes(*arguments)
        raise DiedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "store_deletes", store_and_die)
        yield
