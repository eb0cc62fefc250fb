"""``peek``: the newest records of a topic, as they are and as what they would become."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.facts import as_text, seconds
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.session import broker, load_settings

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings
    from lakehouse.topic import Record

verbs = typer.Typer()


@verbs.command(epilog=examples("lakehouse peek temperatures", "lakehouse peek some.topic --limit 3 --json"))
def peek(
    name: Annotated[str, typer.Argument(metavar="TABLE|TOPIC", help="A declared table, or any topic of the broker.")],
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show so many records, the newest.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show the newest records of a topic: as they are, and the row each would become, or why it may not enter.

    Nothing is merged or changed. Of a topic that no declared table reads, only the records are shown.
    """
    from lakehouse.declaration.table_rules import TOPIC
    from lakehouse.topic import newest_records

    settings = load_settings()
    table = _table_of(settings, name)
    if table is None and not TOPIC.fullmatch(name):
        raise typer.BadParameter(
            f"{name} is neither a declared table nor the name of a topic", param_hint="TABLE|TOPIC"
        )
    topic = table.topic if table else name
    with broker(settings):
        records = newest_records(settings, topic, limit)
    facts = [_facts(each) | (_judged(each, table) if table else {}) for each in records]
    if json:
        return print_json({"topic": topic, "table": table.name if table else None, "records": facts})
    if not facts:
        return say(f"Topic {topic} holds no record.")
    shown = [{**each, "time": seconds(each["time"]) if each["time"] else None} for each in facts]
    rows = [list((_in_words(each) if table else each).values()) for each in shown]
    names = ["partition", "offset", "time", "key", "value", *(["becomes"] if table else [])]
    return print_table(names, rows, title=f"The newest of topic {topic}" + (f", read by {table.name}" if table else ""))


def _table_of(settings: "Settings", name: str) -> "StreamTable | None":
    """The declared table of that name, else the first that reads the topic of that name."""
    from lakehouse.declared import declared_tables

    tables = declared_tables(settings)
    fitting: Iterator[StreamTable] = (each for each in tables if name in (each.name, each.topic))
    return next((each for each in tables if each.name == name), next(fitting, None))


def _facts(record: "Record") -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "time": record.time,
        "key": as_text(record.key),
        "value": as_text(record.value),
    }


def _judged(record: "Record", table: "StreamTable") -> dict[str, Any]:
    from lakehouse.declaration.verdicts import Rules, judge

    rules = Rules(table.fields, table.late.rule if table.late else None)
    row, reason, detail, late = judge(record.value, record.milliseconds * 1000, rules)
    return {"row": None if reason else row, "reason": reason, "detail": detail, "late": late}


def _in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """The row, or the reason, in one column."""
    row, late = facts["row"], " (late)" if facts["late"] else ""
    words = f"rejected, {facts['reason']}: {facts['detail']}"
    if row is not None:
        words = ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in row.items()) + late
    return {name: facts[name] for name in ("partition", "offset", "time", "key", "value")} | {"becomes": words}
