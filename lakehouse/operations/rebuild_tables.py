"""Rebuilds the tables of a declaration next to the stored ones, from all records of its topics, and switches to them.

The former tables stay in a folder of their own, until the next rebuild or a removal: they can be switched back.
"""

import json
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sources import LATEST
from lakehouse.derived.refresh import refresh_all
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.load import load_base
from lakehouse.ingest.topics import first_positions, split_by_topic
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.commit_infos import of_stream, progress_by_source
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.ledger.positions import SourceState
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.operations.planned_changes import batch_layouts, derived_layouts, layouts_of
from lakehouse.settings import Settings
from lakehouse.settings.store import Store
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.layout import KEY
from lakehouse.storage.lock import table_lock
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.table_context import FORMER, REBUILT, SWITCH, TableContext

_ANOTHER = "Declare a table with another name."
_MARGIN = 1_000  # more commits than another process makes while it merges
_CAME = "came.json"  # the names of the tables that the former ones made room for


@dataclass(frozen=True)
class Places:
    """The folders of a rebuild: of the stored tables, of those that were built next to them, and of the former ones."""

    tables: Path
    rebuilt: Path
    former: Path

    @classmethod
    def of(cls, settings: Settings, table: StreamTable) -> "Places":
        """Return those of a declaration; raises ``LakehouseError`` if its tables are in an object store."""
        folder = Store(settings.tables_root).folder
        if folder is None:
            message = f"{table.name} is in an object store, which cannot move the tables that a rebuild makes"
            raise LakehouseError(message, where=settings.tables_root, action=f"{_ANOTHER} It merges every record.")
        return cls(folder, folder / REBUILT / table.name, folder / FORMER / table.name)

    @property
    def reversed(self) -> "Places":
        """The places of a switch back."""
        return replace(self, rebuilt=self.former, former=self.rebuilt)

    @property
    def interrupted(self) -> "Places | None":
        """The places of a switch, or of a switch back, that began and did not end; ``None`` if there is none."""
        return next((places for places in (self, self.reversed) if (places.rebuilt / SWITCH).exists()), None)


def count_records(settings: Settings, table: StreamTable, limit: float = PATIENCE) -> int:
    """Return how many records the topics of a table have, all those that it has merged among them.

    Waits at most ``limit`` seconds for the broker. Raises ``LakehouseError`` if records are gone, or may be, if the
    table does not read topics, or if it began at their end.
    """
    if not table.has_topics or table.topic_options.start == LATEST:
        fact = "began at the end of its topic" if table.has_topics else "does not read topics"
        raise LakehouseError(f"{table.name} {fact}", where=table.place_text, action=_ANOTHER)
    whole_ledger, count = ledger_of(settings, table.name), 0
    former = {source.text for source in progress_by_source(whole_ledger.last_commit)} | {*whole_ledger.reached}
    for part in split_by_topic(settings, table, limit):
        ledger = _of_topic(whole_ledger, part)
        state = source_of(settings, part).preview_state(ledger, limit)
        former.discard(state.source.text)
        _require_records(table, part, state, ledger)
        count += sum(state.end[p] - state.earliest[p] for p in state.end)
    if former:
        fact = f"{table.name} has records of topics that it does not read now, or that were created again"
        raise LakehouseError(fact, where=", ".join(sorted(former)), action=_ANOTHER)
    return count


def _require_records(table: StreamTable, part: StreamTable, state: SourceState, ledger: Ledger) -> None:
    """Raise ``LakehouseError`` if a topic no longer has every record that was merged."""
    if state.is_compacted is not False:
        fact = f"Topic {part.topic} is compacted, or nobody knows whether it is"
        raise LakehouseError(fact, where=f"table {table.name}", action=_ANOTHER)
    starts, positions = first_positions(ledger), ledger.progress.positions if ledger.progress else {}
    lost_partitions = [
        p for p in positions if state.earliest.get(p, 0) > starts.get(p, 0) or state.end.get(p, 0) < positions[p]
    ]
    if lost_partitions:
        partitions = ", ".join(f"partition {p}" for p in sorted(lost_partitions))
        fact = f"Topic {part.topic} no longer has every record of {table.name}"
        raise LakehouseError(fact, where=partitions, action=f"A rebuild would lose their rows. {_ANOTHER}")


def _of_topic(ledger: Ledger, part: StreamTable) -> Ledger:
    commit = ledger.newest.commit if ledger.newest else None
    return ledger.of_stream(part.topic) if commit and of_stream(commit, part.topic).source else ledger


def build_copies(context: TableContext) -> None:
    """Merge every record, and the base files of the last load, into new tables next to the stored ones.

    What an earlier rebuild left there is deleted first. The last commit has a greater number than any commit of the
    stored table: what was planned on that is refused after the switch.
    """
    settings, table = context.settings, context.table
    places = Places.of(settings, table)
    shutil.rmtree(places.rebuilt, ignore_errors=True)
    _copy_kept(settings, table, places)
    place = dict.fromkeys(("tables", "tables_root"), str(places.rebuilt))  # the root is computed once
    build_context = replace(context, settings=settings.model_copy(update=place))
    base = ledger_of(settings, table.base_name) if table.base else None
    if base and base.newest and base.newest.commit.folder:
        load_base(build_context, Path(base.newest.commit.folder))
    merge_all(build_context)
    former, ledger = ledger_of(settings, table.name), build_context.ledger()
    number = max(former.next_number, ledger.next_number) + _MARGIN
    reason = f"Rebuilt from all records of its topics. The former table ended with version {former.version}."
    commit = ledger.next_commit("acceptance", context.run).with_fields(number=number, reason=reason)
    build_context.merged.commit_nothing(commit)
    refresh_all(build_context)
    if ledger_of(settings, table.erased_name).version != ledger_of(build_context.settings, table.erased_name).version:
        fact = f"Rows of {table.name} were erased meanwhile"
        raise LakehouseError(fact, where=str(places.rebuilt), action="Nothing was switched. Run it again.")


def _copy_kept(settings: Settings, table: StreamTable, places: Places) -> None:
    """Copy the tables that records do not give again: schemas, references, and the marks of erased keys.

    Raises ``LakehouseError`` if the key changes although keys are erased: their marks are of the former key.
    """
    stored_table = open_table(settings.table_uri(table.name))
    stored_key = stored_table.metadata().configuration.get(KEY, "") if stored_table else ""
    declared_key = merged_layout(table, settings).enforced_properties.get(KEY, "")
    if (places.tables / table.erased_name).exists() and stored_key != declared_key:
        fact = f"The key of {table.name} cannot change: rows were erased by it"
        raise LakehouseError(fact, where=str(places.tables / table.erased_name), action="Declare the key as before.")
    names = (table.erased_name, table.schemas_name, *(reference.name for reference in table.references))
    for name in names:
        if (places.tables / name).exists():
            shutil.copytree(places.tables / name, places.rebuilt / name)


def switch(settings: Settings, table: StreamTable, places: Places) -> None:
    """Put the rebuilt tables in the place of the stored ones, which become the former ones, while nobody writes.

    If it is killed, the tables are incomplete, and no merge continues until a second run completes it. Raises
    ``LockedError`` if another writer holds the lock of a table, and ``TableError`` if the disk refuses.
    """
    names = [layout.name for layout in layouts_of(settings, table)]
    try:
        with ExitStack() as locks:
            for name in names:
                locks.enter_context(table_lock(str(places.tables / name), name))
            if not (places.rebuilt / SWITCH).exists():
                _begin(settings, table, places, names)
            moves = json.loads((places.rebuilt / SWITCH).read_text("utf-8"))
            for name in moves["out"]:
                if not (places.former / name).exists():
                    (places.tables / name).rename(places.former / name)
            for name in moves["in"]:
                if (places.rebuilt / name).exists():
                    (places.rebuilt / name).rename(places.tables / name)
            (places.former / _CAME).write_text(json.dumps(moves["in"]), "utf-8")
            shutil.rmtree(places.rebuilt)
    except OSError as error:
        raise disk_failure(error, str(error.filename)) from error


def _begin(settings: Settings, table: StreamTable, places: Places, names: list[str]) -> None:
    """Write what a switch moves: what was loaded and not rebuilt, such as references, stays."""
    shutil.rmtree(places.former, ignore_errors=True)
    places.former.mkdir(parents=True)
    kept_names = {table.erased_name, *(reference.name for reference in table.references)}  # copies, to build with
    new_names = [name for name in names if (places.rebuilt / name).exists() and name not in kept_names]
    written = {
        table.name,
        *(part.name for part in (*batch_layouts(settings, table), *derived_layouts(settings, table))),
    }
    came = places.rebuilt / _CAME
    if came.exists():  # a switch back: only what the rebuild brought goes, not what is declared by now
        written = {*json.loads(came.read_text("utf-8"))}
    old_names = [name for name in names if (places.tables / name).exists() and name in {*new_names, *written}]
    file = places.rebuilt / f"{SWITCH}.new"
    file.write_text(json.dumps({"out": old_names, "in": new_names}), "utf-8")
    file.rename(places.rebuilt / SWITCH)
