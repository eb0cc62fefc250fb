"""Commands for rejected records: ``rejected`` lists them, ``redrive`` decodes them again."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, TablesArgument, examples, select_table, select_tables
from lakehouse.cli.facts import record_fields, seconds
from lakehouse.cli.merge_verbs import show_outcomes
from lakehouse.cli.output import count_text, print_json, print_line, print_table, spinner
from lakehouse.cli.table_session import load_settings, registry, table_context
from lakehouse.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.declaration import StreamTable
    from lakehouse.operations.rejections import Reason, Sample
    from lakehouse.settings import Settings

commands = typer.Typer()


def _require_reason(name: str | None) -> str | None:
    from lakehouse.decoding.formats import KNOWN_REASONS
    from lakehouse.discovery import find_tables

    if name is None or name in KNOWN_REASONS:
        return name
    tables = find_tables(load_settings())
    reasons = dict.fromkeys(KNOWN_REASONS)
    reasons |= {reason: None for table in tables for reason in table.format.reasons}
    reasons |= {rule.reason: None for table in tables for rule in table.rejects}
    if name not in reasons and not _is_stored(name, tables):
        raise typer.BadParameter(f"unknown reason {name}; the reasons are {', '.join(reasons)}")
    return name


def _is_stored(reason: str, tables: "Iterable[StreamTable]") -> bool:
    """Whether a record was rejected for a reason, perhaps by a rule that is no longer declared."""
    from lakehouse.operations.rejections import list_rejected

    return any(list_rejected(load_settings(), table, reason, 1) for table in tables)


ReasonOption = Annotated[
    str | None,
    typer.Option(metavar="REASON", callback=_require_reason, help="Only the records rejected for this reason."),
]


@commands.command(epilog=examples("lakehouse rejected", "lakehouse rejected temperatures --reason late --limit 20"))
def rejected(
    table: TablesArgument = None,
    reason: ReasonOption = None,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show at most N records per reason, the newest first.")
    ] = 3,
    json: JsonOption = False,
) -> None:
    """Show the rejected records of a table: the count for each reason, and samples.

    Records that were resolved since are not listed. The table of rejected records has the complete bytes.
    """
    from lakehouse.ingest.rejections import count_rejected
    from lakehouse.operations.rejections import list_rejected
    from lakehouse.storage.table_context import merged_ledger

    settings = load_settings()
    tables = []
    for selected in select_tables(settings, table):
        reasons = list_rejected(settings, selected, reason, limit)
        counts = count_rejected(settings, selected, merged_ledger(settings, selected))
        paths = _file_paths(settings, selected, reasons)
        tables.append({"resolved": counts.resolved if counts else None, **_table_fields(selected.name, reasons, paths)})
    if json:
        return print_json(tables)
    for fields in tables:
        _print_reasons(fields)
    return None


def _file_paths(settings: "Settings", table: "StreamTable", reasons: "list[Reason]") -> dict[int, str]:
    """The paths of the files that have the samples, by number; empty if the table reads no files."""
    from lakehouse.ledger.positions import FILE_PLACES
    from lakehouse.sources.files.folder import read_numbered

    numbers = {sample.position // FILE_PLACES for reason in reasons for sample in reason.samples}
    if not table.reads_files or not numbers:
        return {}
    rows = read_numbered(settings, table, sorted(numbers))
    return dict(zip(rows["number"].to_pylist(), rows["path"].to_pylist(), strict=True))


def _table_fields(table: str, reasons: "list[Reason]", paths: dict[int, str]) -> dict[str, Any]:
    return {
        "table": table,
        "rejected": sum(reason.count for reason in reasons),
        "reasons": [
            {
                "reason": printable(reason.reason),
                "count": reason.count,
                "samples": [_sample_fields(sample, paths) for sample in reason.samples],
            }
            for reason in reasons
        ],
    }


def _sample_fields(sample: "Sample", paths: dict[int, str]) -> dict[str, Any]:
    from lakehouse.ledger.positions import source_words

    words = source_words(sample.source)
    number, place = divmod(sample.position, words.unit)
    shown_place = {words.position: paths.get(number, number), **({"place": place} if words.unit > 1 else {})}
    index = {} if sample.index is None else {"index": sample.index}
    return {**record_fields(sample, shown_place), **index, "detail": printable(sample.detail)}


def _print_reasons(fields: dict[str, Any]) -> None:
    table = fields["table"]
    resolved = f" Resolved since: {fields['resolved']:,}." if fields["resolved"] else ""
    if not fields["reasons"]:
        return print_line(f"{table}: no rejected records.{resolved}")
    print_line(f"{table}: {count_text(fields['rejected'], 'rejected record')}.{resolved}")
    print_table(["reason", "records"], [(reason["reason"], reason["count"]) for reason in fields["reasons"]])
    for reason in fields["reasons"]:
        rows = [
            [seconds(value) if name == "time" and value else value for name, value in sample.items()]
            for sample in reason["samples"]
        ]
        if rows:
            print_table([*reason["samples"][0]], rows, title=reason["reason"])
    return print_line(f"Correct the declaration, then decode them again: lakehouse redrive {table}")


@commands.command(
    epilog=examples("lakehouse redrive temperatures", "lakehouse redrive temperatures --reason out_of_range")
)
def redrive(table: TableArgument = None, reason: ReasonOption = None, json: JsonOption = False) -> None:
    """Decode rejected records again with the current declaration, and merge those that pass.

    Reads their bytes from the table, so the broker is not needed. Looks up schemas that were unknown in the schema
    registry. Progress does not move. Then refreshes the change feed and the rollups.

    For Avro and Protobuf, uses the schema registry in LAKEHOUSE_REGISTRY_URL. If that is not set, the command starts
    the embedded registry of this home, unless it runs already, and stops it at the end.
    """
    from lakehouse.derived.refresh import refresh_all, refresh_and_retry
    from lakehouse.ingest.redrive import redrive as decode_again

    settings = load_settings()
    stream_table = select_table(settings, table)
    with (
        registry(settings, needed=stream_table.has_schemas),
        table_context(settings, stream_table) as context,
        spinner("Redriving"),
    ):
        outcomes = refresh_and_retry(context, lambda: decode_again(context, reason))
        derived_updates = refresh_all(context)
    return show_outcomes(
        stream_table,
        outcomes,
        derived_updates,
        json,
        idle="Nothing to do: no rejected record passes the current declaration.",
    )
