"""Random histories in which the tables next to the merged one are lost: gone, or restored to an older version."""

import shutil
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from lakehouse.errors import LedgerError
from lakehouse.ingest.batches import merge_all
from lakehouse.ledger.commit_values import Consumed
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.histories.delete_histories import DeleteHistories
from lakehouse_tests.helpers.histories.histories import FEW_LETTERS
from lakehouse_tests.helpers.histories.surroundings import Letter
from lakehouse_tests.helpers.histories.upsets import undo_afterwards

Side = Literal["rejected", "deletes"]
LOSSES: dict[Side, str] = {
    "rejected": "rejected records are missing",
    "deletes": "needs the deletes of version .*, which are missing",
}


class SideTableHistories(DeleteHistories):
    """A table with deletes: of its rejected records and its deletes, none goes away in silence."""

    @initialize(sent_letters=FEW_LETTERS)
    def begin(self, sent_letters: list[Letter]) -> None:
        DeleteHistories.begin(self, sent_letters)
        for side in LOSSES:
            assert self._named_version(side)
            self.lose_side_table(side, is_gone=True, sent_letters=sent_letters[:1])

    @rule(side=st.sampled_from(["rejected", "deletes"]), is_gone=st.booleans(), sent_letters=FEW_LETTERS)
    def lose_side_table(self, side: Side, is_gone: bool, sent_letters: list[Letter]) -> None:
        """The next merge stops. Only deletes that were restored alone are found again, and it goes on."""
        self.merge(None)
        named_version = self._named_version(side)
        if named_version is None:
            return
        self.send(sent_letters, 0)
        folder = Path(self.settings.table_uri(getattr(self.table, f"{side}_name")))
        if named_version.version == 0 or is_gone:
            self._merge_without(folder, side, None)
        elif side == "rejected":
            self._merge_without(folder, side, named_version.version - 1)
        else:
            self._restore(folder, named_version.version - 1)
        self.merge(None)

    def _named_version(self, side: Side) -> Consumed | None:
        """Return the version of a side table that the newest commit names."""
        newest = self.tables.ledger().newest
        commit = newest.commit if newest else None
        if commit is None:
            return None
        return commit.rejected_table if side == "rejected" else commit.deletes_table

    def _merge_without(self, folder: Path, side: Side, older_version: int | None) -> None:
        with undo_afterwards(folder, self.parts.folder()):
            if older_version is None:
                shutil.rmtree(folder)
            else:
                self._restore(folder, older_version)
            with pytest.raises(LedgerError, match=LOSSES[side]):
                merge_all(TableContext(self.spark, self.settings, self.table))
            assert self.tables.merged() == self.model.now.rows

    def _restore(self, folder: Path, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF {version}").collect()
