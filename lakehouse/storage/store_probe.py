"""Shows by one small object what an object store can do: write, create by condition, list and delete."""

from functools import partial
from itertools import islice
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import ObjectStore

from lakehouse.errors import SetupError
from lakehouse.errors.causes import in_time
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings.store import Store, copies_folder, store_failures

_NAME = ".lakehouse-probe-"


def probe_store(root: str) -> bool:
    """List what is there, create an object, create it again by condition, and delete it; return whether that held.

    Raises ``TableError`` if the store refuses one of these or does not answer, and ``SetupError`` if it replaces an
    object in spite of the condition: then two writers could replace each other's commits. One declared writer cannot.
    """
    store = Store(root)
    with log_failures(root), store_failures():
        is_replaced = in_time(partial(_is_replaced, store.objects()))
    if is_replaced and not store.access.one_writer:
        raise SetupError(
            "The object store ignores If-None-Match, so one writer can replace a commit of another without an error",
            where=root,
            action="Use a store that honours it, or let only one process write at a time: LAKEHOUSE_STORE_WRITERS=one",
        )
    return not is_replaced


def _is_replaced(objects: ObjectStore) -> bool:
    """Whether a second object takes the place of the first one."""
    name = f"{_NAME}{uuid4().hex}"
    list(islice(obstore.list(objects), 1))  # first: some stores create a bucket that is missing
    obstore.put(objects, name, b"", mode="create")
    try:
        obstore.put(objects, name, b"", mode="create")
    except AlreadyExistsError:
        return False
    finally:
        obstore.delete(objects, name)
    return True


def require_conditions(root: str) -> None:
    """Probe a store before the first write from this home; raises what ``probe_store`` raises.

    A store that passed for one declared writer is probed again for many.
    """
    store = Store(root)
    note = copies_folder() / f"{store.digest}.{'one' if store.access.one_writer else 'many'}"
    if not note.exists():
        probe_store(root)
        note.touch()
