"""A decision of a person is recorded although another program commits at the same moment."""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import ConflictError
from lakehouse.ledger.commits import Commit
from lakehouse.operations import repair
from lakehouse.operations.repair import Proposal
from lakehouse_tests.helpers.sensors import MERGED


def context_with(conflicts: int, commits: list[Commit]) -> Any:
    """Double: a table whose first commits fail, as Delta refuses them after an OPTIMIZE of another program."""

    def commit_nothing(commit: Commit) -> str:
        commits.append(commit)
        if len(commits) <= conflicts:
            raise ConflictError("Another writer changed t at the same moment")
        return "an entry"

    return SimpleNamespace(merged=SimpleNamespace(commit_nothing=commit_nothing))


@pytest.mark.invariant("1.16")
def test_the_commit_that_was_shown_is_tried_again_after_a_conflict() -> None:
    proposal, commits = Proposal((), Commit(**MERGED)), list[Commit]()
    repair.record(context_with(1, commits), proposal)
    assert commits == [proposal.commit] * 2


@pytest.mark.invariant("1.16")
def test_a_commit_that_is_always_refused_is_not_recorded() -> None:
    commits = list[Commit]()
    with pytest.raises(ConflictError):
        repair.record(context_with(99, commits), Proposal((), Commit(**MERGED)))
    assert len(commits) < 10
