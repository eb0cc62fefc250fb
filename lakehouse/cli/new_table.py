"""``new-table``: a first declaration, proposed from real records."""

import gzip
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import examples, print_left_out
from lakehouse.cli.output import count_text, print_line
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import LakehouseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.cli.proposals import Sample
    from lakehouse.declaration import StreamTable
    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.settings import Settings

commands = typer.Typer()

_MAX_SAMPLE = 64_000_000  # bytes of a file in which elements are searched
_NEEDED_RECORDS = (
    "Choose a topic, or a file of lines, with records in one format. Or declare the table by hand: format=Text() stores"
    " each value as it is."
)

SampleOption = Annotated[
    str | None, typer.Option("--from-sample", metavar="FILE", help="Read a file of lines: JSON, CSV, logfmt or texts.")
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from-topic",
        metavar="TOPIC_NAME",
        help="Read the newest records of this topic. Repeat it for a table of several topics.",
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD=VALUE",
        help="Only records whose field, or whose header with header:NAME=VALUE, has this value.",
    ),
]


@commands.command(
    name="new-table",
    epilog=examples(
        "lakehouse new-table prices --from-topic prices",
        "lakehouse new-table prices --from-sample prices.jsonl",
        "lakehouse new-table orders --from-topic shop --where type=order",
        "lakehouse new-table orders --from-topic orders-eu --from-topic orders-us",
    ),
)
def new_table(
    new: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new table and of its file.")],
    topic: TopicsOption = None,
    sample: SampleOption = None,
    where: WhereOption = None,
    records: Annotated[int, typer.Option(min=1, metavar="N", help="Read at most N records.")] = 1_000,
) -> None:
    """Write a declaration from real records: types, required fields, times, and a key if records have a unique id.

    For Avro and Protobuf, the types come from the schemas at the registry. Compressed values, logfmt, CSV and texts are
    recognised by their bytes. The file works as it is; its comments list what to check. Existing files are
    not changed.

    --from-topic uses the broker in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS. If that is not set, the command starts the
    embedded broker of this home, unless it runs already, and stops it at the end.
    """
    from lakehouse.cli.proposals import declaration_text, propose_for_sample, propose_for_topics
    from lakehouse.declaration.table import require_distinct_names
    from lakehouse.discovery import find_readable_tables

    settings = load_settings()
    topics = list(dict.fromkeys(topic or []))
    _require_condition(where)
    _require_names(new, topics, sample)
    read = read_sample(sample, records) if sample else None
    file = _free_file(settings, new)
    proposal = propose_for_sample(read, where) if read else propose_for_topics(settings, topics, records, where)
    topics = topics or [new]
    _require_columns(proposal, read.values if read else [], sample or ", ".join(topics))
    stream_table = _table_of(proposal, new, topics)
    tables = find_readable_tables(settings, print_left_out)
    require_distinct_names(*tables, stream_table)  # refuses a name that is invalid or already used
    _write(file, declaration_text(new, topics, proposal))
    print_line(f"Wrote {file}, from {_origin(proposal, stream_table)}.")
    for warning in proposal.warnings:
        print_line(f"  - {warning}")
    command = f"publish {new} {quote(sample)}" if sample else f"peek {new if len(topics) == 1 else topics[0]}"
    is_text = read and (proposal.form.is_text or read.are_elements)  # publish writes lines of JSON
    first_step = f"send such lines to topic {new}, or read files with source=Files(...)" if is_text else command
    print_line(f"Next: {'' if is_text else 'lakehouse '}{first_step}, then lakehouse merge {new}")


def _require_columns(proposal: "Proposal", values: "Sequence[bytes | None]", place: str) -> None:
    if not proposal.columns:
        no_columns = proposal.warnings[0] if len(proposal.warnings) > 1 else "No record has a field."
        reason = no_columns if proposal.records > proposal.unread else _explain_unreadable(proposal, values)
        what = f"No declaration can be proposed. {reason.rstrip('.')}"
        raise LakehouseError(what, where=place, action=_NEEDED_RECORDS)


def _table_of(proposal: "Proposal", new: str, topics: "Sequence[str]") -> "StreamTable":
    """The proposed table; raises ``DeclarationError`` if its options contradict each other."""
    from lakehouse.declaration import Explode, Month, StreamTable, Topic, Topics

    return StreamTable(
        new,
        doc="",
        columns=proposal.columns,
        key=proposal.key,
        source=Topics(topics) if len(topics) > 1 else Topic(topics[0]),
        partition_by=Month(proposal.month_of) if proposal.month_of else None,
        where=proposal.where,
        rows_from=None if proposal.rows_from is None else Explode(proposal.rows_from, proposal.single_object),
        format=proposal.form,
    )


def _origin(proposal: "Proposal", table: "StreamTable") -> str:
    """What the declaration was proposed from, and how many records could not be read."""
    json_kind = "JSON objects" if table.rows_from is None else "JSON arrays"
    kind = "changes of rows" if table.has_changes else table.format.name if table.format.is_text else json_kind
    problem = "cannot be read by their schemas" if table.has_schemas else f"cannot be read as {kind}"
    unread_text = f"; {proposal.unread:,} of them {problem}: {proposal.refusal}" if proposal.unread else ""
    return f"{count_text(proposal.records, 'record')}{unread_text}"


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


def _require_condition(where: str | None) -> None:
    from lakehouse.declaration.inference.readable_records import read_conditions

    if where is not None and not read_conditions(where):
        raise typer.BadParameter(f"{where!r} is neither FIELD=VALUE nor header:NAME=VALUE", param_hint="--where")


def _require_names(new: str, topics: "Sequence[str]", sample: str | None) -> None:
    from lakehouse.declaration.names import SHAPE, is_name
    from lakehouse.declaration.rules.source_rules import TOPIC_NAME

    if not is_name(new):
        raise typer.BadParameter(f"{new!r}: {SHAPE}", param_hint="NAME")
    if bool(topics) == (sample is not None):
        raise typer.BadParameter("use either --from-topic or --from-sample", param_hint="--from-topic")
    for topic in topics:
        if not TOPIC_NAME.fullmatch(topic):
            raise typer.BadParameter(f"{topic} is not a valid topic name", param_hint="--from-topic")


def _free_file(settings: "Settings", new: str) -> Path:
    from lakehouse.settings.project import project_folder

    folder = project_folder() / Path(settings.declared_in).expanduser()
    if not folder.is_dir():
        place = settings.declared_in
        problem, action = f"The folder of declarations is missing: {place}", "Create it, or correct the setting."
        if folder.is_file() or "." in place or find_spec(place):
            kind = "file" if folder.is_file() else "module"
            problem = f"Declarations are in the {kind} {place}, but a new file needs a folder"
            action = "Create a project with a folder of declarations: lakehouse init my-lake."
        raise SettingsError(
            problem, where="LAKEHOUSE_DECLARATIONS, or [tool.lakehouse] in pyproject.toml", action=action
        )
    file = folder / f"{new}.py"
    for path in (file, folder / new):  # the file would hide the declarations in a folder of that name
        if path.exists():
            raise typer.BadParameter(f"{path} already exists", param_hint="NAME")
    return file


def read_sample(file: str, count: int) -> "Sample":
    """Read the records of a sample, at most ``count``; lines that are empty are none."""
    from lakehouse.cli.proposals import Sample

    open_sample = gzip.open if file.endswith(".gz") else open
    try:
        with open_sample(file, "rb") as lines:
            values = [line.rstrip(b"\r\n") for line, _ in zip(lines, range(count), strict=False) if line.strip()]
        with open_sample(file, "rb") as opened_file:
            elements = _elements_of(opened_file.read(_MAX_SAMPLE), count) if _are_parts(values) else []
    except (OSError, EOFError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.args[-1]}", param_hint="--from-sample") from None
    return Sample([*(elements or values)], are_elements=bool(elements))


def _are_parts(lines: "Sequence[bytes]") -> bool:
    """Whether most lines that begin like JSON are parts of an array or an object, or several."""
    from lakehouse.decoding.fields import Rejection
    from lakehouse.decoding.json_parsing import JsonOptions, parse_json, utf8_text

    options, begun, whole = JsonOptions("null", "last"), 0, 0
    for line in lines:
        if line.lstrip().startswith((b"{", b"[")):
            begun += 1
            with suppress(Rejection, RecursionError):
                parse_json(utf8_text(line), options)
                whole += 1
    return bool(begun) and whole * 2 <= begun


def _elements_of(data: bytes, count: int) -> list[bytes]:
    """The first elements of the array, or objects, in a file; of one that is damaged, those before that."""
    from lakehouse.decoding.files.elements import split_elements
    from lakehouse.decoding.files.lines import FileFault

    elements = list[bytes]()
    with suppress(FileFault):
        for _, values in split_elements(data):
            elements += values.to_pylist()
            if len(elements) >= count:
                break
    return elements[:count]
