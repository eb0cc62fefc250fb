"""Commands that only read: ``status``, ``audit`` and ``plan``. None starts Spark or a broker."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, TablesArgument, examples, readable_declarations, select_tables
from lakehouse.cli.facts import ranges_text, seconds, table_rows
from lakehouse.cli.output import count_text, print_json, print_line, print_notice, print_partitions, print_table
from lakehouse.cli.outputs import print_view_status
from lakehouse.cli.table_session import load_settings, spark, table_context

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakehouse.declaration import StreamTable
    from lakehouse.errors import LakehouseError
    from lakehouse.ledger.audit import Finding
    from lakehouse.ledger.commits import Entry
    from lakehouse.ledger.restores import Foreign
    from lakehouse.operations.planned_changes import Change
    from lakehouse.operations.readers import ViewStatus
    from lakehouse.operations.status import Redeclaration
    from lakehouse.settings import Settings

commands = typer.Typer()

NOT_UP_TO_DATE = 4
_LOOK_LIMIT = 1.5  # seconds for the broker
_REFUSED = 1  # the exit code of every command that finds a problem


@commands.command(epilog=examples("lakehouse status", "lakehouse status temperatures --json"))
def status(
    table: TablesArgument = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help=f"Exit with {NOT_UP_TO_DATE} if a table, export, sink or materialized view lags, counts do not add up,"
            " a topic lost records, files or records are held back, or the broker cannot be reached.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show progress, lag, version, last commit and counts of each table, and whether its feed, rollups and exports lag.

    Without TABLE, also shows the views, and whether there is news for those that are materialized. Works without the
    broker: the lag is then unknown, and the output says so. Exits with 1 if a file of declarations fails, after the
    status of the tables of the others.
    """
    from lakehouse.discovery import outlets_of
    from lakehouse.operations.readers import view_status
    from lakehouse.operations.status import status as read_status
    from lakehouse.operations.status import status_fields

    settings = load_settings()
    declarations, errors = readable_declarations(settings, table)
    statuses = [
        status_fields(read_status(settings, selected, outlets_of(selected, declarations.outlets)))
        for selected in declarations.tables
    ]
    views = declarations.views if table is None else ()
    view_statuses = [view_status(settings, view, views) for view in views]
    if json:
        _print_status_json(statuses, view_statuses, errors)
    else:
        for fields in statuses:
            _print_status(fields)
        for status_of_view in view_statuses:
            print_view_status(status_of_view)
        for error in errors:
            print_line(f"Broken: {error}")
    if errors:
        raise typer.Exit(1)
    are_up_to_date = all(fields["up_to_date"] for fields in statuses) and all(v.is_up_to_date for v in view_statuses)
    if exit_code and not are_up_to_date:
        raise typer.Exit(NOT_UP_TO_DATE)


def _print_status_json(
    statuses: Sequence[Mapping[str, Any]], view_statuses: Sequence["ViewStatus"], errors: Sequence["LakehouseError"]
) -> None:
    view_fields = [asdict(status) | {"up_to_date": status.is_up_to_date} for status in view_statuses]
    broken_fields = {"broken": list(map(str, errors))} if errors else {}
    servers = next((fields["bootstrap_servers"] for fields in statuses if fields["bootstrap_servers"]), None)
    print_json({"bootstrap_servers": servers, "tables": statuses, "views": view_fields, **broken_fields})


def _print_status(fields: dict[str, Any]) -> None:
    from lakehouse.ledger.accounting import shown_totals

    state = (
        f"version {fields['version']}, {count_text(fields['rows'], 'row')}"
        if fields["exists"]
        else "not created yet; the first merge creates it"
    )
    print_line(f"{fields['table']}: {state} ({fields['uri']})")
    place = f"Broker: {fields['bootstrap_servers'] or 'none'}"
    place = place if fields["counted"] == "offset" else f"Reads {fields['source']}"
    print_line(f"{place}. {fields['problem'] or ''}".rstrip())
    if fields["partitions"]:
        columns = list(fields["partitions"][0])
        print_partitions(columns, [list(part.values()) for part in fields["partitions"]])
    _print_lag(fields)
    if fields["last_commit"]:
        commit = fields["last_commit"]
        name = f"{commit['kind']} {commit['number']}"
        print_line(f"Last commit: version {commit['version']}, {name}, {seconds(commit['committed_at'])}.")
        totals = shown_totals(fields["totals"])
        print_table(list(totals), [list(totals.values())], title="Totals of all batches:")
        _print_open_issues(fields)
    for export in fields.get("exports", ()):
        print_line(_export_text(export))
    if fields["foreign"]:
        print_line(_foreign_summary(fields["table"], fields["foreign"]))


def _print_lag(fields: dict[str, Any]) -> None:
    """Print what waits, what cannot be read, what was left out and what is lost."""
    if fields["lag"] is not None:
        print_line(f"Lag: {fields['lag']:,} {fields['counted']}s.")
    for topic, lag in fields.get("lag_of_topics", {}).items():
        print_line(f"Lag of topic {topic}: {'unknown' if lag is None else f'{lag:,} offsets'}.")
    if fields["held_text"]:
        print_line(fields["held_text"])
    _print_left_out(fields["left_out"])
    if fields["loss"]:
        print_line(f"Loss: {fields['loss']}")
    if fields["unaccepted"]:
        print_line(fields["unaccepted"])


def _print_left_out(fields: dict[Any, Any]) -> None:
    """Print what the table left out, as ``_left_out_fields`` has it."""
    if not any(isinstance(part, dict) for part in fields.values()):
        fields = {"": fields} if fields else {}
    for topic, ranges in fields.items():
        print_line(_left_out_text(ranges) + (f" Topic {topic}." if topic else ""))


def _left_out_text(ranges: dict[int, list[int]]) -> str:
    count = sum(end - start for start, end in ranges.values())
    return f"Left out on purpose, before the start of the table: {count:,} offsets ({ranges_text(ranges)})."


def _print_open_issues(fields: dict[str, Any]) -> None:
    """Print what is left to do for a table: rejected records, derived tables that lag, counts that do not add up."""
    table, rejected = fields["table"], fields["rejected"]
    if rejected and any(rejected.values()):
        open_text = f"{rejected['open']:,} open (see: lakehouse rejected {table})"
        print_line(f"Rejected records: {open_text}, {rejected['resolved']:,} resolved.")
    for derived in fields["derived"]:
        version = derived["source_version"]
        state = f"has read nothing of {table}" if version is None else f"has read {table} up to version {version}"
        if derived["lags"]:
            print_line(f"Out of date: {derived['table']} {state}. Run: lakehouse merge {table}")
    if fields["unaccounted"]:
        versions = ", ".join(map(str, fields["unaccounted"]))
        print_line(f"Counts do not add up: version {versions}. See: lakehouse audit {table}")


def _export_text(export: dict[str, Any]) -> str:
    name, table = export["export"], export["table"]
    kind = "Sink" if export["target"] else "Export"
    if export["problem"]:
        return f"{kind} {name}: {export['problem']}"
    if not export["enabled"]:
        return f"{kind} {name} of {table} is disabled."
    if export["source_version"] is None:
        return f"{kind} {name} of {table} never ran. Run: lakehouse export {name}"
    place = export["target"] or f"version {export['version']}"
    state = f"{kind} {name}: {place} has {table} up to version {export['source_version']}"
    if not export["lag"]:
        return f"{state}; nothing is newer."
    reason = " Old files stay: it lags beyond half of the retention." if export["holds_vacuum"] else ""
    return f"{state}; lag: {count_text(export['lag'], 'version')}.{reason} Run: lakehouse export {name}"


def _foreign_summary(table: str, foreign_commits: list[dict[str, Any]]) -> str:
    """The newest commit of other programs, and how many there are."""
    newest = max(foreign_commits, key=lambda foreign: int(foreign["version"]))
    text = _foreign_text(newest["version"], newest["operation"], newest["committed_at"])
    count = len(foreign_commits) - 1
    return f"{text} Before it: {count_text(count, 'such commit')}. See: lakehouse audit {table}" if count else text


def _foreign_text(version: int, operation: str, committed_at: "datetime") -> str:
    if operation == "RESTORE":  # lakehouse makes them too
        return f"Version {version} restored an earlier version: RESTORE, {seconds(committed_at)}."
    return f"Version {version} was committed by another program: {operation}, {seconds(committed_at)}."


@commands.command(epilog=examples("lakehouse audit", "lakehouse audit temperatures --json"))
def audit(table: TablesArgument = None, json: JsonOption = False) -> None:
    """Show every batch in the history of a table, and prove that no record is missing.

    Also shows each change of the declaration, with the version from which it applies. Exits with 1 if a check fails.
    """
    from lakehouse.ledger.audit import audit as check_ledger
    from lakehouse.ledger.ledger import ledger_of
    from lakehouse.operations.status import commit_fields, left_out_fields, list_redeclarations

    settings = load_settings()
    stream_tables = select_tables(settings, table)
    ledgers = {selected.name: ledger_of(settings, selected.name, whole=True) for selected in stream_tables}
    redeclarations = {selected.name: list_redeclarations(settings, selected) for selected in stream_tables}
    findings = {name: check_ledger(ledger) for name, ledger in ledgers.items()}
    if json:
        audits = [
            {
                "table": name,
                "complete": ledger.complete,
                "entries": [commit_fields(entry) for entry in ledger.entries],
                "foreign": [asdict(foreign) for foreign in ledger.foreign],
                "left_out": left_out_fields(ledger),
                "declared": [asdict(redeclaration) for redeclaration in redeclarations[name]],
                "findings": [asdict(finding) for finding in findings[name]],
            }
            for name, ledger in ledgers.items()
        ]
        print_json(audits)
    else:
        for name, ledger in ledgers.items():
            _print_ledger(name, ledger.entries, ledger.foreign)
            _print_left_out(left_out_fields(ledger))
            _print_redeclarations(redeclarations[name])
            _print_findings(findings[name], complete=ledger.complete)
    if not all(finding.passed for table_findings in findings.values() for finding in table_findings):
        raise typer.Exit(1)


def _print_ledger(name: str, entries: "tuple[Entry, ...]", foreign_commits: "tuple[Foreign, ...]") -> None:
    """Oldest first, so that the newest is next to the prompt."""
    from lakehouse.operations.status import commit_fields

    rows = table_rows(commit_fields(entry) for entry in reversed(entries))
    if not rows:
        return print_line(f"{name}: no commit yet.")
    print_table(list(rows[0]), [list(row.values()) for row in rows], title=name)
    for foreign in foreign_commits:
        print_line(_foreign_text(foreign.version, foreign.operation, foreign.committed_at))
    return None


def _print_redeclarations(redeclarations: "list[Redeclaration]") -> None:
    for redeclaration in redeclarations:
        changes = "; ".join(redeclaration.changes)
        time = seconds(redeclaration.committed_at)
        print_line(f"The declaration changed in version {redeclaration.version}, {time}: {changes}.")


def _print_findings(findings: "list[Finding]", *, complete: bool) -> None:
    for finding in findings:
        print_line(f"{'passed' if finding.passed else 'FAILED'}  {finding.check}: {finding.detail}")
    if not complete:
        print_line("The oldest part of the history has expired; the checks cover the rest.")


@commands.command(epilog=examples("lakehouse plan", "lakehouse plan orders --json"))
def plan(
    table: TablesArgument = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark; types in SQL are not checked.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept changed declarations of existing tables, and record who did.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show what the next run does to the tables of a declaration: create, add columns, recompute, or refuse.

    Also counts the rows that an earlier declaration read. Does not need the broker, and writes nothing without
    `--accept`. Asks Spark whether it can compute the checks and
    measures. Exits with 1 if a change is refused.
    """
    from lakehouse.operations.planned_changes import plan_changes, plan_reading

    settings = load_settings()
    stream_tables = select_tables(settings, table)
    changes = [change for stream_table in stream_tables for change in plan_changes(settings, stream_table)]
    changes += [change for stream_table in stream_tables for change in plan_reading(settings, stream_table)]
    if not quick:
        with_sql = [stream_table for stream_table in stream_tables if stream_table.has_sql]
        changes = [*_refused_types(settings, with_sql), *changes]
    if json:
        print_json({"changes": [asdict(change) for change in changes]})
    elif changes:
        print_table(["table", "change", "detail"], [(change.table, change.kind, change.detail) for change in changes])
    else:
        print_line("No changes: the tables match their declarations.")
    refused_names = {change.table for change in changes if change.kind == "refuse"}
    if refused_names:
        for stream_table in (stream_table for stream_table in stream_tables if stream_table.name in refused_names):
            _print_rebuild(settings, stream_table)
        raise typer.Exit(_REFUSED)
    for stream_table in stream_tables:
        _accept(settings, stream_table, accept=accept)


def _print_rebuild(settings: "Settings", table: "StreamTable") -> None:
    """Print that a table can be rebuilt by the declaration that its stored form refuses."""
    from lakehouse.errors import LakehouseError
    from lakehouse.operations.rebuild_tables import count_records

    with suppress(LakehouseError):  # its topics are gone, or have lost records
        count = count_records(settings, table, _LOOK_LIMIT)
        print_notice(f"{table.topic_text} has all {count:,} records: lakehouse rebuild {table.name}")


def _accept(settings: "Settings", table: "StreamTable", *, accept: bool) -> None:
    """Accept the declaration of a table, or print that no sensor merges until a person does."""
    from lakehouse.operations.status import find_unaccepted, reason_to_accept

    changes = find_unaccepted(settings, table)
    if accept and changes:
        from lakehouse.operations.repair import accept_declaration

        with table_context(settings, table) as context:
            entry = accept_declaration(context, changes)
        print_notice(f"Accepted in version {entry.version} of {table.name}. Sensors merge into it.")
    elif reason := reason_to_accept(table, changes):
        print_notice(reason)


def _refused_types(settings: "Settings", tables: "Sequence[StreamTable]") -> "list[Change]":
    """What Spark refuses in the SQL of some tables."""
    from lakehouse.operations.planned_changes import plan_types

    if not tables:
        return []
    with spark(settings) as session:
        return [change for table in tables for change in plan_types(session, table)]
