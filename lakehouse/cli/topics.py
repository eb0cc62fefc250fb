"""``topics``: the topics of the declared tables, and their creation."""

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import JsonOption, examples, find_declared, select_tables, starts_broker
from lakehouse.cli.output import print_json, print_line, print_notice, print_table
from lakehouse.cli.table_session import broker, load_settings
from lakehouse.errors import TopicError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings

commands = typer.Typer()

PartitionsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Partitions of a topic that is created; default: as declared, else 3."),
]
_DEFAULT_PARTITIONS = 3
TableOrTopicArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE|TOPIC_NAME",
        help="A declared table, or with --create a topic that no table needs to read; default: all tables.",
        show_default=False,
    ),
]


@commands.command(
    epilog=examples("lakehouse topics --json", "lakehouse topics --create", "lakehouse topics --create raw-orders")
)
@starts_broker
def topics(
    name: TableOrTopicArgument = None,
    create: Annotated[bool, typer.Option("--create", help="Create missing topics.")] = False,
    partitions: PartitionsOption = None,
    json: JsonOption = False,
) -> None:
    """Show the topics of the declared tables; --create creates missing ones that a declaration names, or this one.

    earliest_offsets and end_offsets are sums over the partitions. producer_time is true if the times of records come
    from producers, not from the broker.
    """
    from lakehouse.declaration.rules.source_rules import TOPIC_NAME
    from lakehouse.ingest.topics import named_topics
    from lakehouse.kafka import create_topic

    settings = load_settings()
    if partitions and not create:
        raise typer.BadParameter("needs --create", param_hint="--partitions")
    if create and name is not None and find_declared(settings, name) is None and TOPIC_NAME.fullmatch(name):
        _note_similar_table(settings, name)
        return _create_undeclared(settings, name, partitions or _DEFAULT_PARTITIONS, as_json=json)
    stream_tables = [selected for selected in select_tables(settings, name) if selected.has_topics]
    with broker(settings) as address:
        if create:
            for part in (part for stream_table in stream_tables for part in named_topics(stream_table)):
                create_topic(settings, part, partitions)
        topic_states = [state for stream_table in stream_tables for state in _describe_each(settings, stream_table)]
    if json:
        return print_json({"bootstrap_servers": address, "topics": topic_states})
    if not topic_states:
        return print_line("None of these tables reads a topic.")
    print_table(list(topic_states[0]), [list(state.values()) for state in topic_states], title=f"Broker {address}")
    return None


def _note_similar_table(settings: "Settings", topic: str) -> None:
    """Say if a declared table has nearly the name of a topic: perhaps the table is meant."""
    from lakehouse.declaration.names import spelling_hint
    from lakehouse.discovery import find_readable_tables

    names = [table.name for table in find_readable_tables(settings, lambda _: None)]
    if hint := spelling_hint(topic, names):
        print_notice(f"{topic} is not a declared table. {hint.rstrip()}")


def _create_undeclared(settings: "Settings", topic: str, partitions: int, *, as_json: bool) -> None:
    from lakehouse.kafka import create_named_topic

    with broker(settings) as address:
        is_created = create_named_topic(settings, topic, partitions)
    if as_json:
        return print_json({"bootstrap_servers": address, "topic": topic, "created": is_created})
    return print_line(f"Topic {topic} {'was created' if is_created else 'existed already'}. Broker {address}")


def _describe_each(settings: "Settings", table: "StreamTable") -> "list[dict[str, object]]":
    """The topics of a table; a pattern that no topic matches is shown as a topic that does not exist."""
    from lakehouse.ingest.topics import split_by_topic

    try:
        return [_describe(settings, part) for part in split_by_topic(settings, table)]
    except TopicError:
        return [{"topic": table.topic_text, "table": table.name, "exists": False} | dict.fromkeys(_FIGURES)]


def _describe(settings: "Settings", table: "StreamTable") -> dict[str, object]:
    from lakehouse.kafka import read_topic

    try:
        state = read_topic(settings, table.topic)
    except TopicError:
        return {"topic": table.topic, "table": table.name, "exists": False} | dict.fromkeys(_FIGURES)
    values = (len(state.end), sum(state.earliest.values()), sum(state.end.values()), state.producer_time)
    return {"topic": table.topic, "table": table.name, "exists": True} | dict(zip(_FIGURES, values, strict=True))


_FIGURES = ("partitions", "earliest_offsets", "end_offsets", "producer_time")
