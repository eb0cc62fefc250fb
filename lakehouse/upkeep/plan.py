"""What the next run does to the tables of a declaration before it writes a row; without a JVM."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.delta.ensure import lacking
from lakehouse.delta.failures import log_failures
from lakehouse.delta.layout import Layout
from lakehouse.delta.ledger import read_ledger
from lakehouse.delta.log import open_table
from lakehouse.derive.rollup import is_as_declared
from lakehouse.errors import TableError
from lakehouse.settings import Settings
from lakehouse.upkeep.layouts import layouts_of

Kind = Literal["create", "migrate", "add column", "set property", "compute anew", "refuse"]


@dataclass(frozen=True)
class Change:
    """One thing that is done to a table; ``refuse``: it does not fit, and the run stops at it."""

    table: str
    kind: Kind
    detail: str


def plan_changes(settings: Settings, table: StreamTable) -> list[Change]:
    """What the declaration changes in its tables, in order; nothing where they are as it says.

    Nothing is written. Raises what reading a table's log raises.
    """
    rollups = {rollup.name: rollup for rollup in table.rollups}
    changes = []
    for layout in layouts_of(settings, table):
        changes += [Change(layout.name, *each) for each in _changes(layout)]
        if layout.name in rollups and _is_declared_anew(layout, rollups[layout.name]):
            changes.append(Change(layout.name, "compute anew", "it was made by another declaration: every group"))
    return changes


def _is_declared_anew(layout: Layout, rollup: Rollup) -> bool:
    ledger = read_ledger(layout.uri, layout.name)
    return ledger.newest is not None and not is_as_declared(ledger, rollup)


def _changes(layout: Layout) -> Iterator[tuple[Kind, str]]:
    there = open_table(layout.uri)
    if there is None:
        yield "create", layout.doc
        return
    try:
        with log_failures(layout.uri):
            lack = lacking(layout, there)
    except TableError as error:
        yield "refuse", str(error)
        return
    if lack.form:
        yield "migrate", "it was written by an older lakehouse: the same rows, in one commit"
    for path, column in lack.columns:
        yield "add column", f"{'.'.join(path)} {column.type}; NULL in the rows that are there"
    for name, value in lack.properties.items():
        yield "set property", f"{name} = {value}"
