"""``peek``: the newest records of a topic, as they are and as what they would become."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.facts import record_facts, seconds
from lakehouse.cli.output import complain, in_words, print_json, print_table, say
from lakehouse.cli.table_session import broker, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import StreamTable
    from lakehouse.decoding.verdicts import Rules
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

verbs = typer.Typer()


@verbs.command(epilog=examples("lakehouse peek temperatures", "lakehouse peek some.topic --limit 3 --json"))
def peek(
    name: Annotated[str, typer.Argument(metavar="TABLE|TOPIC", help="A declared table, or any topic of the broker.")],
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show so many records, the newest.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show the newest records of a topic: as they are, and the row each would become, or why it may not enter.

    Of a long key or value the beginning is shown. Nothing is merged or changed. Of a topic that no declared table
    reads, only the records are shown.
    """
    from lakehouse.declaration.rules.table_rules import TOPIC
    from lakehouse.kafka import newest_records

    settings = load_settings()
    table = _table_of(settings, name)
    if table is None and not TOPIC.fullmatch(name):
        raise typer.BadParameter(
            f"{name} is neither a declared table nor the name of a topic", param_hint="TABLE|TOPIC"
        )
    topic = table.topic if table else name
    with broker(settings, with_registry=table is not None and table.has_schemas):
        records = newest_records(settings, topic, limit)
        rules = _rules_or_say(settings, table, records) if table else None
    facts = [record_facts(each, "offset", each.offset) | (_judged(each, rules) if rules else {}) for each in records]
    if rules and table and table.computed and records:
        complain(f"Left out, as only a merge computes them: {', '.join(table.computed)}.")
    if json:
        return print_json({"topic": topic, "table": table.name if table else None, "records": facts})
    if not facts:
        return say(f"Topic {topic} holds no record.")
    shown = [_in_words(each) for each in facts]
    rows = [list(each.values()) for each in shown]
    return print_table(
        list(shown[0]), rows, title=f"The newest of topic {topic}" + (f", read by {table.name}" if table else "")
    )


def _table_of(settings: "Settings", name: str) -> "StreamTable | None":
    """The declared table of that name, else the first that reads the topic of that name."""
    from lakehouse.discovery import tables_there

    tables = tables_there(settings)
    reading = {each.topic: each for each in reversed(tables)} | {each.name: each for each in tables}
    return reading.get(name)


def _rules_or_say(settings: "Settings", table: "StreamTable", records: "Sequence[Record]") -> "Rules | None":
    """What decides about records; ``None``, and why, where no registry says what they were written by."""
    from lakehouse.errors import RegistryError

    try:
        return _rules(settings, table, records)
    except RegistryError as error:
        complain(f"{error} The records are shown as they are.")
        return None


def _rules(settings: "Settings", table: "StreamTable", records: "Sequence[Record]") -> "Rules":
    from lakehouse.decoding.formats.format import NO_SCHEMAS
    from lakehouse.decoding.verdicts import Rules

    schemas = NO_SCHEMAS
    if table.has_schemas:
        from lakehouse.ingest.kept_schemas import kept_schemas
        from lakehouse.ingest.schema_resolution import look_up

        values = (record.value for record in records)
        schemas = look_up(settings, table.format, values, kept_schemas(settings, table))
    return Rules(table.fields, table.late.rule if table.late else None, table.format.parser(schemas))


def _judged(record: "Record", rules: "Rules") -> dict[str, Any]:
    from lakehouse.decoding.fields import TIMELESS
    from lakehouse.decoding.nested_types import as_told
    from lakehouse.decoding.record_parts import HEADER
    from lakehouse.decoding.verdicts import judge
    from lakehouse.kafka import is_timeless, told_time

    if is_timeless(record.milliseconds):
        return {"row": None, "reason": TIMELESS, "detail": told_time(record.milliseconds), "late": False}
    beside = {"key": record.key, **{f"{HEADER}{name}": told for name, told in record.headers}}
    judged = judge(record.value, record.milliseconds * 1000, rules, beside)
    row = None if judged.reason else {each.name: as_told(judged.row[each.name], each) for each in rules.fields}
    return {"row": row, "reason": judged.reason, "detail": judged.detail, "late": judged.late}


def _in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """The record, and in one column the row it becomes, or the reason why it may not enter, where that was asked."""
    record = {name: facts[name] for name in ("partition", "offset", "time", "key", "value")}
    record["time"] = seconds(record["time"]) if record["time"] else None
    if "row" not in facts:
        return record
    if facts["row"] is None:
        return record | {"becomes": f"rejected, {facts['reason']}: {facts['detail']}"}
    row: dict[str, Any] = facts["row"]
    values = ", ".join(f"{name} = {'NULL' if value is None else in_words(value)}" for name, value in row.items())
    return record | {"becomes": values + (" (late)" if facts["late"] else "")}
