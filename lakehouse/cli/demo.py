"""``demo``: the whole path on sample data, once, in the foreground; it ends by itself."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import TableArgument, examples, select_table, starts_broker
from lakehouse.cli.output import print_line, print_table, progress_console, result_console, spinner
from lakehouse.cli.table_session import broker, load_settings, table_context, warm_engine
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.declaration import Reference, Rollup, Samples, StreamTable
    from lakehouse.query import Result
    from lakehouse.settings import Settings

_MAX_GROUPS = 12  # named one by one
commands = typer.Typer()


@dataclass(frozen=True)
class Figures:
    """What the demo shows about a table, without a JVM."""

    settings: "Settings"
    table: "StreamTable"

    def version(self) -> int:
        """The version of the merged table; -1 before it exists."""
        from lakehouse.ledger.ledger import ledger_of

        return ledger_of(self.settings, self.table.name).version

    def count(self) -> str:
        """How many rows the merged table has, and how they are spread over the groups of its first rollup."""
        ((rows,),) = self._query(f"SELECT count(*) FROM {identifier(self.table.name)}").rows
        if not self.table.rollups:
            return f"{rows:,} rows"
        groups = self._query(
            f"SELECT {self._label}, count(*) FROM {self._joined} GROUP BY {self._group} ORDER BY ALL"
        ).rows
        noun = self._reference.name if self._reference else "groups"
        return f"{rows:,} rows, {_spread([(str(name), int(count)) for name, count in groups], noun)}"

    def changes_since(self, version: int) -> str:
        """How many rows were inserted, updated and deleted after a version, from the change feed.

        A log table has no feed: its own history has the counts.
        """
        if self.table.is_log:
            from lakehouse.ledger.ledger import ledger_of

            entries = ledger_of(self.settings, self.table.name).entries
            inserted = sum(entry.metrics.inserted for entry in entries if entry.version > version)
            return f"{inserted:,} rows inserted" if inserted else "no row changed"
        feed = f"FROM {identifier(self.table.changes_name)} WHERE source_version > {version}"
        counts = dict(self._query(f"SELECT change, count(*) {feed} GROUP BY change").rows)
        words = (("insert", "inserted"), ("update", "changed"), ("delete", "deleted"))
        changes = [f"{counts[change]:,} rows {word}" for change, word in words if change in counts]
        return ", ".join(changes) or "no row changed"

    def newest_of_one_group(self, rollup: "Rollup", limit: int = 12) -> "tuple[str, Result]":
        """The name of one group of a rollup, and the newest rows of the group, without its times."""
        ((name, *values),) = self._query(
            f"SELECT {self._label}, {self._group} FROM {self._joined} GROUP BY {self._group} ORDER BY ALL LIMIT 1"
        ).rows
        conditions = [f"{identifier(c)} = {_literal(v)}" for c, v in zip(self._columns, values, strict=True)]
        other_columns = [identifier(column) for column in rollup.by if column not in self._columns]
        measures = [identifier(name) for name, measure in rollup.measures.items() if measure.type != "TIMESTAMP"]
        selected = ", ".join((*other_columns, *measures))
        rows = f"SELECT {selected} FROM {identifier(rollup.name)} WHERE {' AND '.join(conditions) or 'true'}"
        newest_rows = f"{rows} ORDER BY {', '.join(other_columns) or '1'} DESC LIMIT {limit}"
        return str(name), self._query(f"SELECT * FROM ({newest_rows}) ORDER BY 1")

    @property
    def _columns(self) -> list[str]:
        """The columns that the first rollup groups by, without the partition column unless it is the only one."""
        partition = self.table.partition_by.name if self.table.partition_by else None
        by = list(self.table.rollups[0].by)
        return [column for column in by if column != partition] or by

    @property
    def _group(self) -> str:
        return ", ".join(f"t.{identifier(column)}" for column in self._columns)

    @property
    def _reference(self) -> "Reference | None":
        """The reference table that describes the groups."""
        columns = set(self._columns)
        return next((reference for reference in self.table.references if set(reference.key) <= columns), None)

    @property
    def _label(self) -> str:
        """The name of a group: the first text column of its reference table, or else its own values."""
        text_columns = [c.name for c in self._reference.columns if c.type == "STRING"] if self._reference else []
        return f"any_value(r.{identifier(text_columns[0])})" if text_columns else f"concat_ws(', ', {self._group})"

    @property
    def _joined(self) -> str:
        if self._reference is None:
            return f"{identifier(self.table.name)} t"
        reference, key = identifier(self._reference.name), ", ".join(map(identifier, self._reference.key))
        return f"{identifier(self.table.name)} t LEFT JOIN {reference} r USING ({key})"

    def _query(self, sql: str) -> "Result":
        from lakehouse.cli.arguments import table_names
        from lakehouse.query import query

        return query(self.settings, sql, table_names(self.settings))


def _spread(groups: list[tuple[str, int]], noun: str) -> str:
    """Counts of groups in words: the most frequent count once, and the groups with other counts by name."""
    if not groups:
        return "none"
    common, group_count = Counter(count for _, count in groups).most_common(1)[0]
    exceptions = [f"{count:,} at {name}" for name, count in groups if count != common]
    if len(exceptions) > _MAX_GROUPS:
        counts = [count for _, count in groups]
        return f"{min(counts):,} to {max(counts):,} at each of {len(groups)} {noun}"
    return ", ".join([f"{common:,} at each of {group_count} {noun}", *exceptions])


def identifier(name: str) -> str:
    """A declared name as a DuckDB identifier, even if it is a keyword."""
    return f'"{name}"'


def _literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


@commands.command(epilog=examples("lakehouse demo temperatures"))
@starts_broker
def demo(
    table: TableArgument = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also write to an external broker or table root, if one is configured.")
    ] = False,
) -> None:
    """Show the whole path: base load, records, corrections, replay, and what became of each record.

    The demo works on the tables of the home. A second run sends the same records again: rows do not change, but a log
    table gets each record twice. If the home contains other data, the demo writes nothing.
    """
    settings = load_settings()
    stream_table = select_table(settings, table)
    if stream_table.samples is None:
        raise typer.BadParameter(f"{stream_table.name} declares no samples", param_hint="TABLE")
    _require_own_data(settings, stream_table, is_confirmed=yes)
    path = _Path(settings, stream_table, stream_table.samples, Figures(settings, stream_table))
    with broker(settings, with_registry=stream_table.format.framed) as address, warm_engine(settings):
        print_line(f"Broker: {address}. Tables: {settings.tables_root}")
        path.prepare()
        path.publish("New records", "stream", stream_table.samples.stream())
        if any(True for _ in stream_table.samples.update()):
            path.publish("Corrections", "update", stream_table.samples.update())
        path.replay()
    path.account()
    path.show_rollup()
    _print_next_commands(settings, stream_table)


def _require_own_data(settings: "Settings", table: "StreamTable", *, is_confirmed: bool) -> None:
    """Refuse to mix samples into data that the demo did not write; leave a marker file in a new home."""
    from lakehouse.ledger.ledger import ledger_of

    if (settings.kafka_bootstrap_servers or settings.tables) and not is_confirmed:
        raise LakehouseError(
            "An external broker or table root is configured; the demo would write samples there",
            where=f"topic {table.topic}, tables {settings.tables_root}",
            action="Unset LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS and LAKEHOUSE_TABLES, or confirm with --yes.",
        )
    marker = settings.home_folder / f"demo-{table.name}"
    has_data = any(ledger_of(settings, name).exists for name in (table.name, table.base_name))
    if has_data and not marker.exists():
        raise LakehouseError(
            f"Table {table.name} contains data that the demo did not write; nothing was changed",
            where=settings.tables_root,
            action=f"Use another home: LAKEHOUSE_HOME=.lakehouse-demo lakehouse demo {table.name}",
        )
    if has_data:
        effect = "each record adds one row" if table.is_log else "the rows should not change"
        print_line(f"This home contains an earlier demo. The same records are sent again: {effect}.")
    settings.make_folder()
    marker.touch()


@dataclass(frozen=True)
class _Path:
    """The steps of the demo; after each step, figures from the tables show its effect."""

    settings: "Settings"
    table: "StreamTable"
    samples: "Samples"
    figures: Figures
    steps: Iterator[int] = field(default_factory=lambda: count(1))

    def prepare(self) -> None:
        """Create the topic; load the base files, if there are any, and materialize everything derived from them."""
        from lakehouse.declaration.samples import BaseSamples
        from lakehouse.kafka import create_topic
        from lakehouse.local.dagster_home import migrate_dagster_storage

        create_topic(self.settings, self.table)
        migrate_dagster_storage(self.settings)
        if self.table.base is None or not isinstance(self.samples, BaseSamples):
            return
        self._print_heading("Base files")
        folder = self.settings.home_folder / "samples" / self.table.name
        with spinner("Writing sample files"):
            self.samples.write_base(folder)
        names = [*(reference.name for reference in self.table.references), self.table.base_name]
        with self._print_changes():
            self._run([*names, *self._merged_assets], {self.table.base_name: {"folder": str(folder)}})

    def publish(self, heading: str, kind: str, records: "Iterable[bytes]") -> None:
        """Send records, samples of a kind, and let Dagster merge them."""
        from lakehouse import kafka
        from lakehouse.cli.publish import schema_of_samples

        self._print_heading(heading)
        options = kafka.PublishOptions(schema=schema_of_samples(self.table, kind))
        with spinner("Sending records"):
            acknowledged = kafka.publish(self.settings, self.table, records, options)
        print_line(f"   {acknowledged:,} records sent and acknowledged")
        with self._print_changes():
            self._run(self._merged_assets, {})

    def replay(self) -> None:
        """Merge all records again."""
        from lakehouse.derived.refresh import refresh_all
        from lakehouse.ingest.replay import replay

        self._print_heading("Replay of every record")
        with self._print_changes():
            with table_context(self.settings, self.table) as context, spinner("Merging all records of the topic again"):
                outcomes = replay(context)
                refresh_all(context)
            print_line(f"   {sum(outcome.entry.commit.read for outcome in outcomes):,} records read again")

    def account(self) -> None:
        """Show what became of every record, and check it."""
        from lakehouse.ledger.accounting import shown_totals
        from lakehouse.ledger.audit import audit
        from lakehouse.ledger.ledger import ledger_of

        self._print_heading("Every record is accounted for")
        ledger = ledger_of(self.settings, self.table.name, whole=True)
        totals = shown_totals(ledger.totals.model_dump())
        print_table(list(totals), [list(totals.values())])
        failures = [finding for finding in audit(ledger) if not finding.passed]
        if failures:
            raise LakehouseError(failures[0].detail, where=self.table.name, action="See all checks: lakehouse audit")
        print_line(
            "   read = rejected + superseded + inserted + updated + stale; the history has no gap and no overlap."
        )

    def show_rollup(self) -> None:
        """Show the newest rows of one group of the first rollup."""
        for rollup in self.table.rollups[:1]:
            group, result = self.figures.newest_of_one_group(rollup)
            self._print_heading(f"{rollup.name}: {group}")
            print_table(result.columns, result.rows)

    def _print_heading(self, text: str) -> None:
        result_console().print(f"\n{next(self.steps)}. {text}", style="bold")

    @property
    def _merged_assets(self) -> list[str]:
        return [self.table.name, self.table.rejected_name, *self.table.derived]

    def _run(self, assets: Sequence[str], config: dict[str, Any]) -> None:
        from lakehouse.local.dagster_home import materialize

        def on_step(name: str, duration: str) -> None:
            progress_console().print(f"   Dagster: {name}, {duration}", style="dim", markup=False)

        with spinner("Dagster materializes the assets"):
            materialize(self.settings, assets, config, on_step)

    @contextmanager
    def _print_changes(self) -> Iterator[None]:
        """Print how many rows the table has after a step, and how many rows the step changed."""
        version_before = self.figures.version()
        yield
        print_line(f"   {self.table.name}: {self.figures.count()}")
        print_line(f"   {self.figures.changes_since(version_before)}")


def _print_next_commands(settings: "Settings", table: "StreamTable") -> None:
    print_line()
    print_line(f"The tables are in {settings.tables_root}: one folder per Delta table. Next commands:")
    for command, purpose in (
        ("lakehouse up", "the broker, and Dagster's UI with these tables"),
        (f"lakehouse status {table.name}", "progress and lag of the table"),
        (f"lakehouse query 'SELECT * FROM {identifier(table.name)} LIMIT 5'", "SQL over all tables"),
        ("lakehouse --help", "all commands; without an active environment: .venv/bin/lakehouse"),
    ):
        print_line(f"  {command:<55} {purpose}")
