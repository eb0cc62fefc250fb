"""``peek``: the newest records of a topic, and the row that each of them becomes."""

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, examples, print_left_out, select_topic, starts_broker
from lakehouse.cli.facts import judge_rows, record_fields, seconds
from lakehouse.cli.output import print_json, print_line, print_notice, print_table
from lakehouse.cli.table_session import broker, load_settings
from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.exports.row_texts import value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.cli.facts import AnyRecord
    from lakehouse.declaration import StreamTable
    from lakehouse.decoding.one_record import Verdict
    from lakehouse.decoding.rules import Rules
    from lakehouse.ledger.positions import Range
    from lakehouse.settings import Settings

commands = typer.Typer()
_LEFT_OUT = "left_out"
_MAX_ROWS = 3  # of one record
_ROWLESS = {
    staged.FILTERED: "it does not meet where",
    staged.EMPTY: "its array has no element",
    _LEFT_OUT: "it is before the start of the table",
}


_PLACE = ("partition", "offset", "position", "file", "place")
_CONTENTS = ("time", "key", "value")

_WITHOUT_VERSION = {
    "oldest": "Rows whose version is NULL: {} ({}). Each is older than every row of its key with a version.",
    "newest": "Rows whose version is NULL: {} ({}). Each is newer than every row of its key with a version.",
    "reject": "",
}


@commands.command(epilog=examples("lakehouse peek temperatures", "lakehouse peek some.topic --limit 3 --json"))
@starts_broker
def peek(
    name: Annotated[
        str, typer.Argument(metavar="TABLE|TOPIC_NAME", help="A declared table, or any topic of the broker.")
    ],
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show the newest N records.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show the newest records of a topic, and the row that each becomes, or why it is rejected.

    Shows only the start of a long key or value. --json has every row of a record with many, not only the first.
    Merges and changes nothing. For a topic that no declared table reads, shows only the records. Leaves out a file of
    declarations that fails, with a warning.
    """
    from lakehouse.declaration.rules.source_rules import TOPIC_NAME

    settings = load_settings()
    table = _find_table(settings, name)
    if table is None and not TOPIC_NAME.fullmatch(name):
        problem = f"{name!r} is neither a declared table nor a valid topic name; lakehouse topics lists the tables"
        raise typer.BadParameter(problem, param_hint="TABLE|TOPIC_NAME")
    table = select_topic(table, None if name == table.name else name, "TABLE|TOPIC_NAME") if table else None
    place = table.topic_text if table and not table.has_topics else f"topic {table.topic if table else name}"
    with broker(settings, table, with_registry=table is not None and table.has_schemas):
        records = _newest_records(settings, table, name, limit)
        rules = _find_rules(settings, table, records) if table else None
        left_out = _find_left_out(settings, table) if table else ()
    fields_of_records = [_shown_fields(record, rules, left_out) for record in records]
    if rules and table and records:
        _print_notices(table, fields_of_records)
    if json:
        document = {"topic": place.removeprefix("topic "), "table": table.name if table else None}
        return print_json(document | {"records": [*chain.from_iterable(fields_of_records)]})
    if not records:
        return print_line(f"{place[0].upper()}{place[1:]} has no records.")
    rows = [row for rows_of_record in fields_of_records for row in _printed_rows(rows_of_record)]
    title = f"The newest records of {place}" + (f", read by {table.name}" if table else "")
    return print_table(list(rows[0]), [list(row.values()) for row in rows], title=title)


def _print_notices(table: "StreamTable", fields_of_records: "Sequence[Sequence[dict[str, Any]]]") -> None:
    """Say what the shown rows leave out."""
    if table.computed:
        print_notice(f"Not shown, because only a merge computes them: {', '.join(table.computed)}.")
    if table.rejects:
        reasons = ", ".join(rule.reason for rule in table.rejects)
        print_notice(f"Not judged, because only a merge applies these rules: {reasons}.")
    if count := _count_without_version(fields_of_records, table):
        print_notice(_WITHOUT_VERSION[table.version_nulls].format(count, ", ".join(table.version_columns)))
    if example := _repeated_key(fields_of_records, table):
        print_notice(
            f"Two rows of one record have the same key ({example}): only one of them is in the table after a merge."
            " Add a column with source=ElementIndex() to key=, if both are needed."
        )


def _newest_records(settings: "Settings", table: "StreamTable | None", name: str, limit: int) -> "Sequence[AnyRecord]":
    """The newest records of a topic, of the files in a folder, or of a generator."""
    from lakehouse.declaration import Files, Generated

    if table is None or table.has_topics:
        from lakehouse.kafka import newest_records

        return newest_records(settings, table.topic if table else name, limit)
    if isinstance(table.source, Files):
        from lakehouse.sources.files.source import newest_records as newest_of_files

        return newest_of_files(settings, table.source, limit, table.format.encoding)
    if isinstance(table.source, Generated):
        from lakehouse.ledger.ledger import ledger_of
        from lakehouse.sources.generated_records import newest_records as newest_of_generator
        from lakehouse.sources.table_sources import source_of

        state = source_of(settings, table).read_state(ledger_of(settings, table.name), 0)
        return newest_of_generator(table.source, state, limit)
    raise typer.BadParameter(
        f"{name} reads another table; query it instead: lakehouse query", param_hint="TABLE|TOPIC_NAME"
    )


def _find_table(settings: "Settings", name: str) -> "StreamTable | None":
    """The declared table of that name, or else the first table that reads the topic of that name."""
    from lakehouse.discovery import find_readable_tables
    from lakehouse.ingest.topics import reads_topic_of

    tables = find_readable_tables(settings, print_left_out)
    by_name = {table.name: table for table in tables}
    return by_name.get(name) or next((table for table in tables if reads_topic_of(table, name)), None)


def _find_rules(settings: "Settings", table: "StreamTable", records: "Sequence[AnyRecord]") -> "Rules | None":
    """The rules that decode the records; ``None``, with a notice, if no registry has their schemas."""
    from lakehouse.errors import RegistryError

    try:
        return _load_rules(settings, table, records)
    except RegistryError as error:
        print_notice(f"{error} Showing only the records.")
        return None


def _find_left_out(settings: "Settings", table: "StreamTable") -> "Sequence[Range]":
    """What the table left out of this very topic; nothing if its history cannot be read: other commands report that."""
    from lakehouse.kafka import read_topic
    from lakehouse.ledger.ledger import ledger_of

    if not table.has_topics:
        return ()
    try:
        ledger = ledger_of(settings, table.name)
        ledger = ledger.of_stream(table.topic) if table.topics else ledger
    except LakehouseError:
        return ()
    is_read = ledger.left_out and ledger.progress and read_topic(settings, table.topic).source == ledger.progress.source
    return ledger.left_out if is_read else ()


def _load_rules(settings: "Settings", table: "StreamTable", records: "Sequence[AnyRecord]") -> "Rules":
    from lakehouse.decoding.formats.format import NO_SCHEMAS

    schemas = NO_SCHEMAS
    if table.schema_format:
        from lakehouse.ingest.schema_resolution import kept_schemas, look_up_schemas

        parts = [record.value for record in records] if table.format.needs_schemas else []
        parts += [record.key for record in records] if table.key_format else []
        schemas = look_up_schemas(settings, table.schema_format, parts, kept_schemas(settings, table))
    return table.rules(schemas)


def _shown_fields(record: "AnyRecord", rules: "Rules | None", left_out: "Sequence[Range]") -> list[dict[str, Any]]:
    """The record with what becomes of each of its rows; without rules, the record alone."""
    contents = record_fields(record, {})
    shown_record = record.shown_place | {name: contents[name] for name in _CONTENTS}
    return [shown_record | fields for fields in (_decode_record(record, rules, left_out) if rules else [{}])]


def _decode_record(record: "AnyRecord", rules: "Rules", left_out: "Sequence[Range]" = ()) -> list[dict[str, Any]]:
    """What becomes of each row of a record; most records have one."""
    from lakehouse.decoding.fields import TIMELESS, UNREADABLE_FILE
    from lakehouse.decoding.record_parts import FAULT_HEADER
    from lakehouse.kafka import is_timeless, timeless_detail

    judged, position = None, record.shown_place.get("offset")
    if any(part.partition == record.partition and position in range(part.start, part.end) for part in left_out):
        judged = _LEFT_OUT, _ROWLESS[_LEFT_OUT]
    elif fault := dict(record.headers).get(FAULT_HEADER):
        judged = UNREADABLE_FILE, fault.decode()
    elif is_timeless(record.milliseconds):
        judged = TIMELESS, timeless_detail(record.milliseconds)
    if judged is None:
        return [_row_fields(verdict, rules) for verdict in judge_rows(record, rules)]
    reason, detail = judged
    fields = {"row": None, "deletes": False, "reason": reason, "detail": detail, "late": False}
    return [{"index": None, **fields} if rules.rows_from is not None else fields]


def _row_fields(verdict: "Verdict", rules: "Rules") -> dict[str, Any]:
    from lakehouse.decoding.nested_types import shown_value

    fields = [field for field in rules.fields if field.name in verdict.row]
    row = None if verdict.reason else {field.name: shown_value(verdict.row[field.name], field) for field in fields}
    return {
        **({"index": verdict.place} if rules.rows_from is not None else {}),
        "row": row,
        "deletes": verdict.deletes,
        "reason": verdict.reason,
        "detail": verdict.detail,
        "late": verdict.late,
        **({"truncates": verdict.truncates} if verdict.is_rowless else {}),
        **({"sequence": verdict.sequence} if rules.has_changes else {}),
    }


def _repeated_key(records: "Sequence[Sequence[dict[str, Any]]]", table: "StreamTable") -> str | None:
    """The first key that two rows of one record have, as text; ``None`` if there is none, or keys are computed."""
    if not table.key or {*table.key} & {*table.computed}:
        return None
    for rows_of_record in records:
        rows = [fields["row"] for fields in rows_of_record if fields.get("row") and not fields["deletes"]]
        keys = Counter(tuple((name, row[name]) for name in table.key) for row in rows)
        for key in (key for key, count in keys.items() if count > 1):
            return ", ".join(f"{name} = {value_text(value)}" for name, value in key)
    return None


def _count_without_version(records: "Sequence[Sequence[dict[str, Any]]]", table: "StreamTable") -> int:
    """How many rows have no value in a column that is the version."""
    rows = (fields["row"] for rows_of_record in records for fields in rows_of_record if fields.get("row"))
    return sum(any(row.get(name, "") is None for name in table.version_columns) for row in rows)


def _printed_rows(rows_of_record: "Sequence[dict[str, Any]]") -> list[dict[str, Any]]:
    """The rows of one record as printed rows; of many, the first ones, and a last one that counts the others."""
    if len(rows_of_record) <= _MAX_ROWS + 1:
        return [_record_row(fields) for fields in rows_of_record]
    other_rows = rows_of_record[_MAX_ROWS:]
    rejected_count = sum(fields["reason"] not in {None, *_ROWLESS} for fields in other_rows)
    rejected_text = f", {rejected_count:,} of them rejected" if rejected_count else ""
    other_text = f"{len(other_rows):,} more rows{rejected_text}: --json shows them"
    last_row = dict.fromkeys(_record_row(other_rows[0])) | {"becomes": other_text}
    return [*(_record_row(fields) for fields in rows_of_record[:_MAX_ROWS]), last_row]


def _record_row(fields: dict[str, Any]) -> dict[str, Any]:
    """The record as a printed row; if it was decoded, one more column has the row it becomes, or why it is none."""
    record = {name: fields[name] for name in fields if name in (*_PLACE, *_CONTENTS)}
    record["time"] = seconds(record["time"]) if record["time"] else None
    if "row" not in fields:
        return record
    record |= {"index": fields["index"]} if "index" in fields else {}
    if fields["reason"] in _ROWLESS:
        return record | {"becomes": f"no row: {_ROWLESS[fields['reason']]}"}
    if fields["row"] is None:
        return record | {"becomes": f"rejected, {fields['reason']}: {fields['detail']}"}
    row: dict[str, Any] = fields["row"]
    if "truncates" in fields:
        becomes = "a truncate: it deletes older rows" if fields["truncates"] else "no row: it follows a delete"
        return record | {"becomes": becomes}
    values = ", ".join(f"{name} = {'NULL' if value is None else value_text(value)}" for name, value in row.items())
    if fields["deletes"]:
        return record | {"becomes": f"a delete of {values}"}
    return record | {"becomes": values + (" (late)" if fields["late"] else "")}
