"""``new-table``: a first declaration, written from records as they are."""

from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import counted, say
from lakehouse.cli.table_session import broker, load_settings, registry
from lakehouse.errors import LakehouseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.settings import Settings

verbs = typer.Typer()


SampleOption = Annotated[
    str | None, typer.Option("--from-sample", metavar="FILE", help="Look at a file of JSON lines.")
]


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
    sample: SampleOption = None,
    records: Annotated[int, typer.Option(min=1, metavar="N", help="Look at so many records at most.")] = 1_000,
) -> None:
    """Write a declaration from real records: types, required fields, times, a key if an id tells the records apart.

    Of Avro, types are what the schemas at the registry say. The file runs as it is, and says what records cannot tell.
    Nothing that is there is touched.
    """
    from lakehouse.cli.proposed_file import declaration_text
    from lakehouse.declaration import Month, StreamTable, declared_together
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.discovery import tables_there

    settings = load_settings()
    _require_names(new, topic, sample)
    values = _of_file(sample, records) if sample else []
    file = _free_file(settings, new)
    proposal = _of_topic(settings, topic, records) if topic else propose(values)
    if not proposal.columns:
        why = proposal.doubts[0] if len(proposal.doubts) > 1 else "No record has a field."
        what = why if proposal.records > proposal.unread else _unreadable(proposal, values)
        raise LakehouseError(f"Nothing can be proposed. {what}", where=sample or topic or "")
    topic = topic or new
    month = Month(proposal.month_of) if proposal.month_of else None
    made = StreamTable(new, topic, "", proposal.columns, proposal.key, month, format=proposal.form)
    declared_together(*tables_there(settings), made)  # refused by name is what no table can have, or another has
    _write(file, declaration_text(new, topic, proposal))
    unread = "cannot be read by their schemas" if made.has_schemas else "are not JSON objects"
    left_out = f"; {proposal.unread:,} of them {unread}" if proposal.unread else ""
    say(f"Wrote {file}, from {counted(proposal.records, 'record')}{left_out}.")
    for doubt in proposal.doubts:
        say(f"  - {doubt}")
    first = f"lakehouse publish {new} {quote(sample)}" if sample else f"lakehouse peek {new}"
    say(f"What to type next: {first}, then lakehouse merge {new}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LakehouseError(f"The declaration cannot be written: {error.strerror}", where=str(file)) from None


def _unreadable(proposal: "Proposal", lines: "Sequence[bytes | None]") -> str:
    """Why nothing can be proposed for records of which none can be read."""
    if not proposal.records:
        return "There is no record."
    if proposal.form.framed:
        return (
            f"Before each record stands the id of a schema, and none can be read: {proposal.refusal}. Where the schema"
            " is not known, set LAKEHOUSE_REGISTRY_URL to the registry of those who write to this topic."
        )
    begin = f"; the first begins with {(lines[0] or b'')[:20]!r}" if lines else f": {proposal.refusal}"
    return f"No record is a JSON object{', one on each line of a file' if lines else ''}{begin}."


def _require_names(new: str, topic: str | None, sample: str | None) -> None:
    from lakehouse.declaration.names import SHAPE, is_name
    from lakehouse.declaration.rules.table_rules import TOPIC

    if not is_name(new):
        raise typer.BadParameter(f"{new!r}: {SHAPE}", param_hint="NAME")
    if (topic is None) == (sample is None):
        raise typer.BadParameter("give either --from-topic or --from-sample", param_hint="--from-topic")
    if topic and not TOPIC.fullmatch(topic):
        raise typer.BadParameter(f"{topic} is no name of a topic", param_hint="--from-topic")


def _free_file(settings: "Settings", new: str) -> Path:
    from lakehouse.settings.project import project_folder

    folder = project_folder() / Path(settings.declared_in).expanduser()
    if not folder.is_dir():
        where = settings.declared_in
        fact, action = f"The folder of declarations is missing: {where}", "Make it, or correct the setting."
        if "." in where or find_spec(where):
            fact = f"Declarations are in the module {where}, and a new file needs a folder"
            action = "Make a project with a folder of declarations: lakehouse init my-lake."
        raise SettingsError(fact, where="LAKEHOUSE_DECLARATIONS, or [tool.lakehouse] in pyproject.toml", action=action)
    file = folder / f"{new}.py"
    for there in (file, folder / new):  # of a folder of that name, the file would hide what is declared in it
        if there.exists():
            raise typer.BadParameter(f"{there} is there already", param_hint="NAME")
    return file


def _of_topic(settings: "Settings", topic: str, count: int) -> "Proposal":
    """What is proposed for the newest records of a topic; a registry is asked where they were written by its schemas.

    Raises ``RegistryError`` where that cannot be asked.
    """
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.decoding.formats import likely_formats
    from lakehouse.kafka import newest_records

    with broker(settings):
        values = [record.value for record in newest_records(settings, topic, count)]
        forms = likely_formats(values)
        if not forms[0].needs_schemas:
            return propose(values, forms[0])
        from lakehouse.ingest.schema_resolution import look_up

        with registry(settings, needed=True):
            schemas = [(form, look_up(settings, form, values)) for form in forms]
        form, usable = max(schemas, key=lambda each: len(each[1].known))  # the first, if bytes and schemas tell nothing
        return propose(values, form, usable)


def _of_file(file: str, count: int) -> list[bytes | None]:
    try:
        with Path(file).open("rb") as lines:
            return [line.strip() for line, _ in zip(lines, range(count), strict=False) if line.strip()]
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from-sample") from None
