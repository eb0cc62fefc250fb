"""Verbs that only look: ``status``, ``audit`` and ``query``. None of them starts Spark or a broker."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, TablesArgument, chosen_tables, examples, table_names
from lakehouse.cli.facts import commit_facts, seconds, shown_facts
from lakehouse.cli.output import complain, counted, print_csv, print_json, print_table, say
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import QueryError

if TYPE_CHECKING:
    from lakehouse.ledger.audit import Finding
    from lakehouse.ledger.commits import Entry
    from lakehouse.ledger.restores import Foreign
    from lakehouse.operations.evolution import Redeclared
    from lakehouse.operations.status import Status

verbs = typer.Typer()

_SHOWN_ROWS = 1_000
NOT_UP_TO_DATE = 4


@verbs.command(epilog=examples("lakehouse status", "lakehouse status temperatures --json"))
def status(
    table: TablesArgument = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help=f"Exit with code {NOT_UP_TO_DATE} where a table lags or has a difference, the topic lost records, or"
            " the broker is not there.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show how far each table is: progress and lag, version, last commit, counts; and whether feed and rollups lag.

    Works without the broker, and says so: the lag is then not known.
    """
    from lakehouse.operations.status import status as look

    settings = load_settings()
    found = [_status_facts(look(settings, each)) for each in chosen_tables(settings, table)]
    if json:
        print_json({"bootstrap_servers": found[0]["bootstrap_servers"], "tables": found})
    else:
        for facts in found:
            _print_status(facts)
    if exit_code and not all(facts["up_to_date"] for facts in found):
        raise typer.Exit(NOT_UP_TO_DATE)


def _status_facts(found: "Status") -> dict[str, Any]:
    ledger = found.ledger
    return {
        "table": found.table,
        "uri": found.uri,
        "exists": ledger.exists,
        "version": ledger.version if ledger.exists else None,
        "rows": found.rows,
        "bootstrap_servers": found.bootstrap_servers,
        "problem": found.problem,
        "loss": found.loss,
        "lag": found.lag,
        "partitions": [asdict(part) for part in found.partitions],
        "last_commit": commit_facts(ledger.newest) if ledger.newest else None,
        "totals": ledger.totals.model_dump(),
        "rejected": asdict(found.rejected) if found.rejected else None,
        "derived": [asdict(each) for each in found.derived],
        "unaccounted": list(ledger.unaccounted),
        "up_to_date": found.is_up_to_date,
        "foreign": [asdict(foreign) for foreign in ledger.foreign],
    }


def _print_status(facts: dict[str, Any]) -> None:
    place = f"version {facts['version']}, {counted(facts['rows'], 'row')}" if facts["exists"] else "not there yet"
    say(f"{facts['table']}: {place} ({facts['uri']})")
    say(f"Broker: {facts['bootstrap_servers'] or 'none'}. {facts['problem'] or ''}".rstrip())
    if facts["partitions"]:
        columns = list(facts["partitions"][0])
        print_table(columns, [list(part.values()) for part in facts["partitions"]])
    if facts["lag"] is not None:
        say(f"Lag: {facts['lag']:,} offsets.")
    if facts["loss"]:
        say(f"Loss: {facts['loss']}")
    if facts["last_commit"]:
        last = facts["last_commit"]
        what = f"{last['kind']} {last['number']}"
        say(f"Last commit: version {last['version']}, {what}, {seconds(last['committed_at'])}.")
        print_table(list(facts["totals"]), [list(facts["totals"].values())], title="All batches so far:")
        _print_open(facts)
    for foreign in facts["foreign"]:
        say(f"Not ours: version {foreign['version']}, {foreign['operation']}, {seconds(foreign['committed_at'])}.")


def _print_open(facts: dict[str, Any]) -> None:
    """What is still to be done about a table: records that are out, tables that lag, what does not add up."""
    table, rejected = facts["table"], facts["rejected"]
    if rejected and any(rejected.values()):
        say(f"Rejected: {rejected['open']:,} open (lakehouse rejected {table}), {rejected['resolved']:,} resolved.")
    for each in facts["derived"]:
        at = "has read nothing yet" if each["source_version"] is None else f"has read version {each['source_version']}"
        if each["lags"]:
            say(f"Lags: {each['table']} {at} of {table}; bring it up to date with: lakehouse merge {table}")
    if facts["unaccounted"]:
        versions = ", ".join(map(str, facts["unaccounted"]))
        say(f"Does not add up: version {versions}; see: lakehouse audit {table}")


@verbs.command(epilog=examples("lakehouse audit", "lakehouse audit temperatures --json"))
def audit(table: TablesArgument = None, json: JsonOption = False) -> None:
    """Show every batch of a table as its history tells them, and prove that no record is missing.

    Also shown is what was declared otherwise from a version on. Exits with 1 where a check fails.
    """
    from lakehouse.ledger.audit import audit as prove
    from lakehouse.ledger.ledger import ledger_of
    from lakehouse.operations.evolution import redeclared

    settings = load_settings()
    chosen = chosen_tables(settings, table)
    ledgers = {each.name: ledger_of(settings, each.name, whole=True) for each in chosen}
    declared = {each.name: redeclared(settings, each) for each in chosen}
    findings = {name: prove(ledger) for name, ledger in ledgers.items()}
    if json:
        told = [
            {
                "table": name,
                "complete": ledger.complete,
                "entries": [commit_facts(entry) for entry in ledger.entries],
                "foreign": [asdict(foreign) for foreign in ledger.foreign],
                "declared": [asdict(each) for each in declared[name]],
                "findings": [asdict(each) for each in findings[name]],
            }
            for name, ledger in ledgers.items()
        ]
        print_json(told)
    else:
        for name, ledger in ledgers.items():
            _print_ledger(name, ledger.entries, ledger.foreign)
            _print_declared(declared[name])
            _print_findings(findings[name], complete=ledger.complete)
    if not all(each.passed for found in findings.values() for each in found):
        raise typer.Exit(1)


def _print_ledger(name: str, entries: "tuple[Entry, ...]", foreign: "tuple[Foreign, ...]") -> None:
    """Oldest first, so that the newest stands above the prompt."""
    rows = [shown_facts(commit_facts(entry)) for entry in reversed(entries)]
    if not rows:
        return say(f"{name}: no commit yet.")
    print_table(list(rows[0]), [list(row.values()) for row in rows], title=name)
    for each in foreign:
        say(f"Not ours: version {each.version}, {each.operation}, {seconds(each.committed_at)}.")
    return None


def _print_declared(changed: "list[Redeclared]") -> None:
    for each in changed:
        said = "; ".join(each.changes)
        say(f"Declared otherwise: version {each.version}, {seconds(each.committed_at)}: {said}.")


def _print_findings(findings: "list[Finding]", *, complete: bool) -> None:
    for each in findings:
        say(f"{'passed' if each.passed else 'FAILED'}  {each.check}: {each.detail}")
    if not complete:
        say("The oldest part of the history has expired; the checks cover what is left.")


@verbs.command(
    epilog=examples(
        "lakehouse query 'SELECT count(*) FROM temperatures'", "lakehouse query --csv --limit 100 'FROM temperatures'"
    )
)
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement that reads, in DuckDB's SQL.")],
    limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Rows to show; 0 shows all.",
            show_default=f"{_SHOWN_ROWS:,}; all with --json, --csv",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV and nothing else.")] = False,
    json: JsonOption = False,
) -> None:
    """Answer a question in SQL over all tables, by their names, read-only.

    With --json: a list of objects, one for each row; DECIMAL values are text, so that they stay exact, and so are
    NaN and infinities. Columns then need names of their own.
    """
    from lakehouse.query import query as answer

    if csv and json:
        raise typer.BadParameter("--csv and --json exclude each other", param_hint="--csv")
    settings = load_settings()
    most = limit if limit is not None else 0 if csv or json else _SHOWN_ROWS
    result = answer(settings, sql, table_names(settings), most or None)
    if json:
        _require_own_names(result.columns)
        print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
    elif csv:
        print_csv(result.columns, result.rows)
    else:
        print_table(result.columns, result.rows, exact=True)
        say(counted(len(result.rows), "row"))
    if result.more:
        complain(f"Only the first {counted(most, 'row')} are shown; --limit 0 shows all.")


def _require_own_names(columns: list[str]) -> None:
    """An object has one value of a name: refuse to lose a column."""
    twice = next((name for name, times in Counter(columns).items() if times > 1), None)
    if twice is not None:
        raise QueryError(f"In this answer more than one column is named {twice}", action="Name each of them, with AS.")
