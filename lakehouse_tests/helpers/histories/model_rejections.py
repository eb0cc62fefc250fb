"""The expected rejected records: which commit resolved each. A RESTORE of the merged table does not restore them."""

from collections.abc import Callable, Mapping, Set
from itertools import count

from lakehouse_tests.helpers.histories.model_values import Position


class Rejections:
    """Every record that was ever rejected, with its reason, and the commits in which some passed.

    A mark of a commit that a RESTORE undid does not count. A commit that stores rejected records next removes such
    marks, so they do not count even if a later RESTORE brings the commit back: the record is listed until a redrive.
    """

    def __init__(self) -> None:
        self._reasons: dict[Position, str] = {}
        self._resolved: dict[Position, int] = {}
        self._numbers = count()

    def store(self, decisions: Mapping[Position, str | None], valid_commits: Set[int]) -> int:
        """Store the decisions of a commit; return the number of the commit."""
        number = next(self._numbers)
        self._resolved = {position: n for position, n in self._resolved.items() if n in valid_commits}
        for position, reason in decisions.items():
            if reason:
                self._reasons[position] = reason
                self._resolved.pop(position, None)
            elif position in self._reasons:
                self._resolved.setdefault(position, number)
        return number

    def forget(self, is_erased: Callable[[Position], bool]) -> None:
        """Forget the records that were erased."""
        self._reasons = {position: why for position, why in self._reasons.items() if not is_erased(position)}

    def open(self, valid_commits: Set[int]) -> dict[Position, str]:
        """Return the records that passed in no valid commit, with their reasons."""
        return {p: reason for p, reason in self._reasons.items() if self._resolved.get(p) not in valid_commits}
