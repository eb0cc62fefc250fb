"""Choose who stores compared rows: deltalake in small tables, a writer in their slots or of new keys, or Spark."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.storage import data_files, eligibility, key_hashes, merge_spec, stored_table
from lakehouse.storage.key_hashes import KeyHashes

WRITERS = ("deltalake", "slots", "Spark", "new keys")
_MOST_ROWS = eligibility.MOST_ROWS


@contextmanager
def by_spark(really: bool = True) -> Iterator[None]:
    """Let Spark write all rows inside the block, or restore the default if ``really`` is false."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligibility, "MOST_ROWS", -1 if really else _MOST_ROWS)
        yield


@contextmanager
def by_slots() -> Iterator[None]:
    """Replace rows in their slots inside the block, also in a table that is small enough for a merge by deltalake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligibility, "_MOST_TARGET_ROWS", -1)
        patch.setattr(data_files, "MOST_FILES", 1)  # with more, files are selected by their bounds
        patch.setattr(KeyHashes, "are_useful", lambda *_: False)
        yield


@contextmanager
def by_new_keys() -> Iterator[None]:
    """Compare no new keys inside the block, also in small tables; each batch that only inserts packs all hashes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligibility, "_MOST_TARGET_ROWS", -1)
        patch.setattr(key_hashes, "_INSERTING_BATCHES", 1)
        yield


def by_writer(name: str) -> AbstractContextManager[None]:
    """Let one of ``WRITERS`` store compared rows inside the block, if the table is eligible."""
    blocks = {"slots": by_slots, "new keys": by_new_keys}
    return blocks[name]() if name in blocks else by_spark(name == "Spark")


def one_more_row(patch: pytest.MonkeyPatch) -> None:
    """Make a rollup store one row more than it computed when it updates a group."""
    keyed_spec = merge_spec.keyed_spec

    def wrong_spec(*arguments: Any) -> Any:
        correct_spec = keyed_spec(*arguments)
        return replace(correct_spec, update=dict(correct_spec.update) | {"rows": "s.`rows` + 1"})

    patch.setattr(stored_table, "can_merge_quickly", lambda *_, **__: False)
    patch.setattr(stored_table, "keyed_spec", wrong_spec)
