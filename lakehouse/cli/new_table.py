"""``new-table``: a first declaration, proposed from real records."""

from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import count_text, print_line
from lakehouse.cli.table_session import broker, load_settings, registry
from lakehouse.errors import LakehouseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.decoding.formats import Format
    from lakehouse.decoding.formats.format import Schemas
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

commands = typer.Typer()

_NEEDED_RECORDS = "Choose a topic or a file with records that are JSON objects, or Avro with a schema id."

SampleOption = Annotated[str | None, typer.Option("--from-sample", metavar="FILE", help="Read a file of JSON lines.")]


@commands.command(
    name="new-table",
    epilog=examples(
        "lakehouse new-table prices --from-topic prices", "lakehouse new-table prices --from-sample prices.jsonl"
    ),
)
def new_table(
    new: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new table and of its file.")],
    topic: Annotated[
        str | None, typer.Option("--from-topic", metavar="TOPIC", help="Read the newest records of this topic.")
    ] = None,
    sample: SampleOption = None,
    records: Annotated[int, typer.Option(min=1, metavar="N", help="Read at most N records.")] = 1_000,
) -> None:
    """Write a declaration from real records: types, required fields, times, and a key if records have a unique id.

    For Avro, the types come from the schemas at the registry. The file works as it is; its comments list what to check.
    Existing files are not changed.

    --from-topic uses the broker in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS. If that is not set, the command starts the
    embedded broker of this home, unless it runs already, and stops it at the end.
    """
    from lakehouse.cli.proposed_file import declaration_text
    from lakehouse.declaration import Month, StreamTable, require_distinct_names
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.discovery import find_tables

    settings = load_settings()
    _require_names(new, topic, sample)
    values = _read_sample(sample, records) if sample else []
    file = _free_file(settings, new)
    proposal = _propose_for_topic(settings, topic, records) if topic else propose(values)
    if not proposal.columns:
        no_columns = proposal.warnings[0] if len(proposal.warnings) > 1 else "No record has a field."
        reason = no_columns if proposal.records > proposal.unread else _explain_unreadable(proposal, values)
        what = f"No declaration can be proposed. {reason.rstrip('.')}"
        raise LakehouseError(what, where=sample or topic or "", action=_NEEDED_RECORDS)
    topic = topic or new
    month = Month(proposal.month_of) if proposal.month_of else None
    stream_table = StreamTable(new, topic, "", proposal.columns, proposal.key, month, format=proposal.form)
    require_distinct_names(*find_tables(settings), stream_table)  # refuses a name that is invalid or already used
    _write(file, declaration_text(new, topic, proposal))
    kind = "changes of rows" if stream_table.has_changes else "JSON objects"
    problem = "cannot be read by their schemas" if stream_table.has_schemas else f"are not {kind}"
    unread_text = f"; {proposal.unread:,} of them {problem}" if proposal.unread else ""
    print_line(f"Wrote {file}, from {count_text(proposal.records, 'record')}{unread_text}.")
    for warning in proposal.warnings:
        print_line(f"  - {warning}")
    command = f"lakehouse publish {new} {quote(sample)}" if sample else f"lakehouse peek {new}"
    print_line(f"Next: {command}, then lakehouse merge {new}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        what = f"The declaration cannot be written: {error.strerror}"
        raise LakehouseError(what, where=str(file), action="Make the folder writable, then run it again.") from None


def _explain_unreadable(proposal: "Proposal", lines: "Sequence[bytes | None]") -> str:
    """Why nothing can be proposed if no record can be read."""
    if not proposal.records:
        return "There are no records."
    if proposal.form.framed:
        return (
            f"Each record starts with the id of a schema, and no record can be read: {proposal.refusal}. If the schema"
            " is unknown, set LAKEHOUSE_REGISTRY_URL to the registry of the producers of this topic."
        )
    detail = f"; the first starts with {(lines[0] or b'')[:20]!r}" if lines else f": {proposal.refusal}"
    return f"No record is a JSON object{'; a file needs one on each line' if lines else ''}{detail}."


def _require_names(new: str, topic: str | None, sample: str | None) -> None:
    from lakehouse.declaration.names import SHAPE, is_name
    from lakehouse.declaration.rules.table_rules import TOPIC

    if not is_name(new):
        raise typer.BadParameter(f"{new!r}: {SHAPE}", param_hint="NAME")
    if (topic is None) == (sample is None):
        raise typer.BadParameter("use either --from-topic or --from-sample", param_hint="--from-topic")
    if topic and not TOPIC.fullmatch(topic):
        raise typer.BadParameter(f"{topic} is not a valid topic name", param_hint="--from-topic")


def _free_file(settings: "Settings", new: str) -> Path:
    from lakehouse.settings.project import project_folder

    folder = project_folder() / Path(settings.declared_in).expanduser()
    if not folder.is_dir():
        place = settings.declared_in
        problem, action = f"The folder of declarations is missing: {place}", "Create it, or correct the setting."
        if "." in place or find_spec(place):
            problem = f"Declarations are in the module {place}, but a new file needs a folder"
            action = "Create a project with a folder of declarations: lakehouse init my-lake."
        raise SettingsError(
            problem, where="LAKEHOUSE_DECLARATIONS, or [tool.lakehouse] in pyproject.toml", action=action
        )
    file = folder / f"{new}.py"
    for path in (file, folder / new):  # the file would hide the declarations in a folder of that name
        if path.exists():
            raise typer.BadParameter(f"{path} already exists", param_hint="NAME")
    return file


def _propose_for_topic(settings: "Settings", topic: str, count: int) -> "Proposal":
    """Propose columns for the newest records of a topic; looks up their schemas in a registry if they refer to any.

    Raises ``RegistryError`` if the registry cannot be reached.
    """
    from lakehouse.decoding.formats import likely_formats
    from lakehouse.kafka import newest_records

    with broker(settings):
        records = newest_records(settings, topic, count)
        values = [record.value for record in records]
        formats = likely_formats(values)
        if not formats[0].needs_schemas:
            return _propose(records, formats[0])
        from lakehouse.ingest.schema_resolution import look_up_schemas

        with registry(settings, needed=True):
            schemas = [(form, look_up_schemas(settings, form, values)) for form in formats]
        # of formats that can use equally many schemas, the first one, or changes in their envelope
        return _propose(records, *max(schemas, key=lambda candidate: _count_usable(*candidate)))


def _count_usable(form: "Format", schemas: "Schemas") -> tuple[int, bool]:
    count = sum(map(form.may_use, schemas.by_id.values()))
    return count, form.has_changes and count > 0


def _propose(records: "Sequence[Record]", form: "Format", schemas: "Schemas | None" = None) -> "Proposal":
    """Propose columns for the records of a topic in a format."""
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.declaration.inference.proposed_changes import KeyedValue, propose_changes
    from lakehouse.decoding.formats.format import NO_SCHEMAS

    if form.has_changes:
        return propose_changes(
            [KeyedValue(record.key, record.value) for record in records], form, schemas or NO_SCHEMAS
        )
    return propose([record.value for record in records], form, schemas or NO_SCHEMAS)


def _read_sample(file: str, count: int) -> list[bytes | None]:
    try:
        with Path(file).open("rb") as lines:
            return [line.strip() for line, _ in zip(lines, range(count), strict=False) if line.strip()]
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from-sample") from None
