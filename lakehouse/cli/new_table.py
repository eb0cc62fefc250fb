"""``new-table``: a first declaration, written from records as they are."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import say
from lakehouse.cli.session import broker, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import Column
    from lakehouse.declaration.proposal import Proposal
    from lakehouse.settings import Settings

verbs = typer.Typer()


@verbs.command(
    name="new-table",
    epilog=examples(
        "lakehouse new-table prices --from-topic prices", "lakehouse new-table prices --from-sample prices.jsonl"
    ),
)
def new_table(
    new: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new table, and of its file.")],
    topic: Annotated[
        str | None, typer.Option("--from-topic", metavar="TOPIC", help="Look at the newest records of this topic.")
    ] = None,
    sample: Annotated[
        str | None, typer.Option("--from-sample", metavar="FILE", help="Look at a file of JSON lines.")
    ] = None,
    records: Annotated[int, typer.Option(min=1, metavar="N", help="Look at so many records at most.")] = 1_000,
) -> None:
    """Write a declaration from real records: types, required fields, a likely key, times with their pattern.

    It runs as it is, and says what records cannot tell. Nothing that is there is touched.
    """
    from lakehouse.declaration import Month, StreamTable, declared_together
    from lakehouse.declaration.proposal import propose
    from lakehouse.declared import tables_there

    settings = load_settings()
    _require_names(new, topic, sample)
    values = _of_file(sample, records) if sample else []
    file = _free_file(settings, new)
    read = _of_topic(settings, topic, records) if topic else values
    proposal = propose(read)
    if not proposal.columns:
        doubts = proposal.doubts[0] if len(proposal.doubts) > 1 else "No record has a field."
        what = doubts if proposal.records > proposal.unread else _no_json(read)
        raise typer.BadParameter(f"nothing can be proposed. {what}", param_hint=sample or topic)
    topic = topic or new
    month = Month(proposal.month_of) if proposal.month_of else None
    made = StreamTable(new, topic, "", proposal.columns, proposal.key, month)
    declared_together(*tables_there(settings), made)  # refused by name is what no table can have, or another has
    file.write_text(_text(new, topic, proposal), encoding="utf-8")
    say(f"Wrote {file}, from {proposal.records:,} records, of which {proposal.unread:,} are no JSON objects.")
    for doubt in proposal.doubts:
        say(f"  - {doubt}")
    first = f"lakehouse publish {new} {quote(sample)}" if sample else f"lakehouse peek {new}"
    say(f"What to type next: {first}, then lakehouse merge {new}")


def _no_json(values: list[bytes | None]) -> str:
    """Why nothing can be proposed for records of which none is a JSON object."""
    framed = sum(value[:1] == b"\0" for value in values if value)
    if values and framed * 2 > len(values):
        return (
            "Before each record stands the id of a schema, as clients of a schema registry write it: declare the"
            " columns yourself, with format=Avro() or format=Json(framed=True), and see docs/vocabulary.md."
        )
    if not values:
        return "There is no record."
    return f"No record is a JSON object, one on each line of a file; the first begins with {(values[0] or b'')[:20]!r}."


def _require_names(new: str, topic: str | None, sample: str | None) -> None:
    from lakehouse.declaration.names import SHAPE, is_name
    from lakehouse.declaration.table_rules import TOPIC

    if not is_name(new):
        raise typer.BadParameter(f"{new!r}: {SHAPE}", param_hint="NAME")
    if (topic is None) == (sample is None):
        raise typer.BadParameter("give either --from-topic or --from-sample", param_hint="--from-topic")
    if topic and not TOPIC.fullmatch(topic):
        raise typer.BadParameter(f"{topic} is no name of a topic", param_hint="--from-topic")


def _free_file(settings: "Settings", new: str) -> Path:
    folder = Path(settings.declared_in).expanduser()
    if not folder.is_dir():
        fact = f"declarations are in the module {settings.declared_in}, and not in a folder"
        raise typer.BadParameter(f"{fact}; lakehouse init makes a project", param_hint="LAKEHOUSE_DECLARATIONS")
    file = folder / f"{new}.py"
    if file.exists():
        raise typer.BadParameter(f"{file} is there already", param_hint="NAME")
    return file


def _of_topic(settings: "Settings", topic: str, count: int) -> list[bytes | None]:
    from lakehouse.topic import newest_records

    with broker(settings):
        return [record.value for record in newest_records(settings, topic, count)]


def _of_file(file: str, count: int) -> list[bytes | None]:
    try:
        with Path(file).open("rb") as lines:
            return [line.strip() for line, _ in zip(lines, range(count), strict=False) if line.strip()]
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from-sample") from None


def _text(table: str, topic: str, proposal: "Proposal") -> str:
    """The file of a declaration, as a person would write it."""
    names = ["Column", *(["Month"] if proposal.month_of else []), "StreamTable"]
    one_row = f"Records of topic {topic}: one row for each {', '.join(proposal.key) or 'record'}."
    parts = [f"name={_quoted(table)}", f"topic={_quoted(topic)}", f"doc={_quoted(one_row)}", "file=__file__"]
    columns = "".join(f"        {_column(column)},\n" for column in proposal.columns)
    parts += [f"columns=[\n{columns}    ]", f"key=[{', '.join(map(_quoted, proposal.key))}]"]
    if proposal.month_of:
        parts.append(f"partition_by=Month({_quoted(proposal.month_of)})")
    doubts = "".join(f"# - {doubt}\n" for doubt in proposal.doubts)
    told = f"# Proposed from {proposal.records:,} records. What they cannot tell:\n{doubts}" if doubts else ""
    body = "".join(f"    {part},\n" for part in parts)
    head = f'"""What topic {topic} tells."""\n\nfrom lakehouse import {", ".join(names)}\n\n'
    return f"{head}{told}{table} = StreamTable(\n{body})\n"


def _column(column: "Column") -> str:
    said = [_quoted(column.name), _quoted(column.type), "doc=" + _quoted(column.doc)]
    said += ["required=True"] if column.required else []
    names = column.field.names
    said += [f"source={_source(names)}"] if names != (column.name,) else []
    said += [f"{how}={_quoted(value)}" for how in ("pattern", "epoch") if (value := getattr(column, how))]
    return f"Column({', '.join(said)})"


def _source(names: "Sequence[str]") -> str:
    return _quoted(names[0]) if len(names) == 1 else f"({', '.join(map(_quoted, names))})"


def _quoted(text: str) -> str:
    """A text as Python reads it, in double quotes where that is as plain."""
    written = repr(text)
    plain = written[0] == "'" and '"' not in written and "\\'" not in written
    return f'"{written[1:-1]}"' if plain else written
