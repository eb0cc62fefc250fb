"""``demo``: the whole path on sample data, once, in the foreground; it ends by itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import TableArgument, chosen_table, examples
from lakehouse.cli.figures import Figures, identifier
from lakehouse.cli.output import print_table, progress, results, say
from lakehouse.cli.phases import busy
from lakehouse.cli.table_session import broker, load_settings, table_context, warm
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.declaration import Samples, StreamTable
    from lakehouse.settings import Settings

verbs = typer.Typer()


@verbs.command(epilog=examples("lakehouse demo temperatures"))
def demo(
    table: TableArgument = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also where an outside broker or root of tables is set.")] = False,
) -> None:
    """Show the whole path: base load, records, corrections, replay, and what became of each record.

    It works on the home's own tables. A second time sends the same records again: the rows stay as they
    are, and a log table holds them twice. Where the home holds other data, nothing is touched.
    """
    settings = load_settings()
    chosen = chosen_table(settings, table)
    if chosen.samples is None:
        raise typer.BadParameter(f"{chosen.name} declares no samples", param_hint="TABLE")
    _guard(settings, chosen, sure=yes)
    path = _Path(settings, chosen, chosen.samples, Figures(settings, chosen))
    with broker(settings, with_registry=chosen.format.framed) as address, warm(settings):
        say(f"Broker: {address}. Tables: {settings.tables_root}")
        path.prepare()
        path.publish("New records", "stream", chosen.samples.stream())
        if any(True for _ in chosen.samples.update()):
            path.publish("Corrections", "update", chosen.samples.update())
        path.replay()
    path.account()
    path.show_rollup()
    _say_what_next(settings, chosen)


def _guard(settings: "Settings", table: "StreamTable", *, sure: bool) -> None:
    """Refuse to mix samples into data that the demo did not write; leave a mark in a home that is new."""
    from lakehouse.ledger.ledger import ledger_of

    if (settings.kafka_bootstrap_servers or settings.tables) and not sure:
        raise LakehouseError(
            "An outside broker or root of tables is configured; the demo would write samples there",
            where=f"topic {table.topic}, tables {settings.tables_root}",
            action="Unset it, or say --yes.",
        )
    mark = settings.home_folder / f"demo-{table.name}"
    held = any(ledger_of(settings, name).exists for name in (table.name, table.base_name))
    if held and not mark.exists():
        raise LakehouseError(
            f"Table {table.name} holds data that the demo did not write; nothing was touched",
            where=settings.tables_root,
            action=f"Run it in another home: LAKEHOUSE_HOME=.lakehouse-demo lakehouse demo {table.name}",
        )
    if held:
        then = "each is one more row" if table.is_log else "the rows should stay as they are"
        say(f"This home holds an earlier demo: the same records are sent again, and {then}.")
    settings.make_folder()
    mark.touch()


@dataclass(frozen=True)
class _Path:
    """The steps of the demo, each shown by figures that are read from the tables after it."""

    settings: "Settings"
    table: "StreamTable"
    samples: "Samples"
    figures: Figures
    steps: Iterator[int] = field(default_factory=lambda: count(1))

    def prepare(self) -> None:
        """Make the topic, and load the base files, where there are any, and everything that is made from them."""
        from lakehouse.declaration import BaseSamples
        from lakehouse.local.dagster_home import migrate_dagster_storage

        self._create_topic()
        migrate_dagster_storage(self.settings)
        if self.table.base is None or not isinstance(self.samples, BaseSamples):
            return
        self._head("Base files")
        folder = self.settings.home_folder / "samples" / self.table.name
        with busy("Writing sample files"):
            self.samples.write_base(folder)
        names = [*(reference.name for reference in self.table.references), self.table.base_name]
        with self._change():
            self._run([*names, *self._merged], {self.table.base_name: {"folder": str(folder)}})

    def publish(self, head: str, kind: str, records: "Iterable[bytes]") -> None:
        """Send records, samples of a kind, and let Dagster merge them."""
        from lakehouse import kafka
        from lakehouse.cli.topics import schema_of_samples

        self._head(head)
        options = kafka.PublishOptions(schema=schema_of_samples(self.table, kind))
        with busy("Sending records"):
            acknowledged = kafka.publish(self.settings, self.table, records, options)
        say(f"   {acknowledged:,} records sent and acknowledged")
        with self._change():
            self._run(self._merged, {})

    def replay(self) -> None:
        """Merge everything again."""
        from lakehouse.derived.refresh import refresh_all
        from lakehouse.ingest.replay import replay

        self._head("Replay of every record")
        with self._change():
            with table_context(self.settings, self.table) as working, busy("Merging all records of the topic again"):
                outcomes = replay(working)
                refresh_all(working)
            say(f"   {sum(each.entry.commit.read for each in outcomes):,} records read again")

    def account(self) -> None:
        """Show what became of every record, and check it."""
        from lakehouse.ledger.audit import audit
        from lakehouse.ledger.ledger import ledger_of

        self._head("Every record is accounted for")
        ledger = ledger_of(self.settings, self.table.name, whole=True)
        totals = ledger.totals.model_dump()
        print_table(list(totals), [list(totals.values())])
        failed = [finding for finding in audit(ledger) if not finding.passed]
        if failed:
            raise LakehouseError(failed[0].detail, where=self.table.name, action="See all of it: lakehouse audit")
        say("   read = rejected + duplicate + inserted + updated + stale; the history has no gap and no overlap.")

    def show_rollup(self) -> None:
        """Show the newest rows of the first rollup for one of its groups."""
        for rollup in self.table.rollups[:1]:
            group, result = self.figures.newest_of_one_group(rollup)
            self._head(f"{rollup.name}: {group}")
            print_table(result.columns, result.rows)

    def _head(self, text: str) -> None:
        results().print(f"\n{next(self.steps)}. {text}", style="bold")

    @property
    def _merged(self) -> list[str]:
        return [self.table.name, self.table.rejected_name, *self.table.derived]

    def _create_topic(self) -> None:
        from lakehouse.kafka import create_topic

        create_topic(self.settings, self.table)

    def _run(self, assets: Sequence[str], config: dict[str, Any]) -> None:
        from lakehouse.local.dagster_run import materialize

        def on_step(name: str, duration: str) -> None:
            progress().print(f"   Dagster: {name}, {duration}", style="dim", markup=False)

        with busy("Dagster runs the assets"):
            materialize(self.settings, assets, config, on_step)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Say what the table holds after a step, and how many rows the step changed."""
        before = self.figures.version()
        yield
        say(f"   {self.table.name}: {self.figures.count()}")
        say(f"   {self.figures.changes_since(before)}")


def _say_what_next(settings: "Settings", table: "StreamTable") -> None:
    say()
    say(f"The tables are in {settings.tables_root}: one Delta table a folder. What to type next:")
    for command, purpose in (
        ("lakehouse up", "the broker, and Dagster's UI with these tables"),
        (f"lakehouse status {table.name}", "how far the table is"),
        (f"lakehouse query 'SELECT * FROM {identifier(table.name)} LIMIT 5'", "SQL over all tables"),
        ("lakehouse --help", "everything else; .venv/bin/lakehouse, where the environment is not active"),
    ):
        say(f"  {command:<55} {purpose}")
