"""The death of a process at a point of its work, simulated in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakehouse_tests.helpers.attacks.worker import Point, inject


class WorkerDeath(BaseException):
    """Simulates the death of the process; no ``except Exception`` of lakehouse catches it."""


@contextmanager
def dying(point: Point, name: str) -> Iterator[None]:
    """Stop the block at a point, before or after its function; fail if the block does not reach the point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Point, "die", _die)
        module, function, original = inject(point, name)
        try:
            with pytest.raises(WorkerDeath):
                yield
        finally:
            setattr(module, function, original)


def _die(_: Point) -> None:
    raise WorkerDeath
