"""Shows by one small object what an object store can do: write, create by condition, list and delete."""

from contextlib import suppress
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

    Raises ``TableError`` if the store refuses one of these or does not answer, and ``SetupError`` if two writers could
    replace each other's commits there, as far as is known. One declared writer cannot.
    """
    store = Store(root)
    with log_failures(root), store_failures():
        problem = in_time(partial(_find_problem, store))
    if problem and not store.access.one_writer:
        action = "Use another store, or let only one process write at a time: LAKEHOUSE_STORE_WRITERS=one"
        raise SetupError(problem, where=root, action=action)
    return not problem


def _find_problem(store: Store) -> str | None:
    """Why several writers cannot share a store; ``None`` if they can."""
    objects, folder = store.objects(), f"{_NAME}{uuid4().hex}"
    name = f"{folder}/object"
    list(islice(obstore.list(objects), 1))  # first: some stores create a bucket that is missing
    obstore.put(objects, name, b"", mode="create")
    try:
        if not _is_taken(objects, name):
            return "The store ignores If-None-Match, so one writer can replace a commit of another without an error"
        if store.kind == "azure" and _is_taken(objects, folder):
            return "The storage account has a hierarchical namespace, where no test has shown several writers"
        return None
    finally:
        obstore.delete(objects, name)
        if store.kind == "azure":
            with suppress(FileNotFoundError):
                obstore.delete(objects, folder)


def _is_taken(objects: ObjectStore, name: str) -> bool:
    """Whether there is an object of this name, or a folder in a hierarchical namespace; else one is created."""
    try:
        obstore.put(objects, name, b"", mode="create")
    except AlreadyExistsError:
        return True
    return False


def require_conditions(root: str) -> None:
    """Probe a store before the first write from this home; raises what ``probe_store`` raises.

    A store that passed for one declared writer is probed again for many.
    """
    store = Store(root)
    note = copies_folder() / f"{store.digest}.{'one' if store.access.one_writer else 'many'}"
    if not note.exists():
        probe_store(root)
        note.touch()
