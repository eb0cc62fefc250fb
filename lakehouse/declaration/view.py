"""``View``, the declaration of a query over declared tables: checked when it is created."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse.declaration.names import name_problems, spelling_hint
from lakehouse.declaration.sql import query_problems, tables_read
from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.decoding.column_types import Problem
from lakehouse.errors import DeclarationError


@dataclass(frozen=True)
class View:
    """A query over declared tables and other views, in DuckDB's SQL, that is read by its name.

    Grain: one row per row of the query. The query reads tables by their names: merged tables, change feeds, rollups,
    rejected records, base and reference tables. It must return the same if it runs again, so it depends neither on
    chance nor on the clock. Times are in UTC. A view is computed each time it is read. With ``materialized=True``, its
    rows are stored in a Delta table of its name, as of the versions of its tables that the commit names. Each update
    computes and replaces every row; a second update without news writes nothing.
    """

    name: str
    sql: str
    doc: str
    materialized: bool = False
    owner: str = "team:lakehouse"
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuse what the declaration alone shows to be wrong; ``sort_views`` and Dagster check it with its tables."""
        for message, action in self._problems():
            raise DeclarationError(f"View {self.name!r}: {message}", where=self.file, action=action)

    def _problems(self) -> Iterator[Problem]:
        yield from name_problems(self.name)
        if not self.doc.strip():
            yield "doc is empty", "Say what one row is."
        yield from query_problems(self.sql)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tables and views that its query reads."""
        return tables_read(self.sql)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the declaration uses: its own, and if it is materialized those of its job and sensor."""
        return (self.name, *((self.job_name, self.sensor_name) if self.materialized else ()))

    @property
    def job_name(self) -> str:
        """Name of the job that materializes it."""
        return f"materialize_{self.name}"

    @property
    def sensor_name(self) -> str:
        """Name of the sensor that requests that job."""
        return f"{self.name}_sensor"


def sort_views(views: Sequence[View], tables: Iterable[str]) -> tuple[View, ...]:
    """Return the views so that each comes after those that it reads, else by name.

    ``tables`` are the names of all tables. Raises ``DeclarationError`` if a view reads an unknown name, or itself
    through other views.
    """
    by_name = {view.name: view for view in sorted(views, key=lambda view: view.name)}
    known_names = sorted({*tables, *by_name})
    for view in by_name.values():
        for name in view.reads:
            if name not in known_names:
                other_names = [known_name for known_name in known_names if known_name != view.name]
                action = f"{spelling_hint(name, other_names)}It can read {', '.join(other_names)}."
                raise DeclarationError(f"View {view.name!r}: unknown table {name}", where=view.file, action=action)
    sorted_views: dict[str, View] = {}
    for view in by_name.values():
        _add_after_its_sources(view, by_name, sorted_views, ())
    return tuple(sorted_views.values())


def _add_after_its_sources(
    view: View, by_name: Mapping[str, View], sorted_views: dict[str, View], path: tuple[str, ...]
) -> None:
    if view.name in path:
        cycle = " reads ".join((*path[path.index(view.name) :], view.name))
        message = f"View {view.name!r}: it reads itself: {cycle}"
        raise DeclarationError(message, where=view.file, action="Remove one of these references.")
    for name in view.reads:
        if name in by_name and name not in sorted_views:
            _add_after_its_sources(by_name[name], by_name, sorted_views, (*path, view.name))
    sorted_views.setdefault(view.name, view)


def add_sources(chosen_views: Iterable[View], views: Sequence[View]) -> list[View]:
    """Return the chosen views and every view that they read; ``views`` are all, each after those that it reads."""
    names = {view.name for view in chosen_views}
    for view in reversed(views):
        if view.name in names:
            names.update(view.reads)
    return [view for view in views if view.name in names]


@dataclass(frozen=True)
class ViewInputs:
    """What a view is computed from: other views, each after those that it reads, and the tables that are then read."""

    views: tuple[View, ...]
    tables: tuple[str, ...]


def find_inputs(view: View, views: Iterable[View]) -> ViewInputs:
    """Return what a view is computed from. A materialized view is a table to those that read it."""
    by_name = {part.name: part for part in views if not part.materialized}
    inner_views: dict[str, View] = {}
    tables: set[str] = set()
    for name in view.reads:
        if name in by_name:
            inputs = find_inputs(by_name[name], views)
            inner_views |= {inner.name: inner for inner in (*inputs.views, by_name[name])}
            tables.update(inputs.tables)
        else:
            tables.add(name)
    return ViewInputs(tuple(inner_views.values()), tuple(sorted(tables)))


def fingerprint_view(view: View, inputs: ViewInputs) -> str:
    """Return a hash of everything but the rows of its tables that decides the rows of a view."""
    return fingerprint_of(view.sql, *((inner.name, inner.sql) for inner in inputs.views))
