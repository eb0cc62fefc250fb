"""``demo``: the whole path on sample data, once, in the foreground; it ends by itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import TableArgument, examples, select_table
from lakehouse.cli.figures import Figures, identifier
from lakehouse.cli.help_texts import starts_broker
from lakehouse.cli.output import print_line, print_table, progress_console, result_console
from lakehouse.cli.phases import spinner
from lakehouse.cli.table_session import broker, load_settings, table_context, warm_engine
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.declaration import Samples, StreamTable
    from lakehouse.settings import Settings

commands = typer.Typer()


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
        from lakehouse.declaration import BaseSamples
        from lakehouse.local.dagster_home import migrate_dagster_storage

        self._create_topic()
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
            "   read = rejected + duplicate + inserted + updated + stale; the history has no gap and no overlap."
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

    def _create_topic(self) -> None:
        from lakehouse.kafka import create_topic

        create_topic(self.settings, self.table)

    def _run(self, assets: Sequence[str], config: dict[str, Any]) -> None:
        from lakehouse.local.dagster_run import materialize

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
