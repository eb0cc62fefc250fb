"""What ``new-table`` proposes a declaration from, and the file that it writes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import takewhile
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakehouse.cli.output import count_text
from lakehouse.cli.table_session import broker, registry
from lakehouse.declaration.inference.proposed_types import column_line, source_text
from lakehouse.decoding.formats.format import quote
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import FieldIs, HeaderIs
    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.declaration.inference.proposed_changes import KeyedValue
    from lakehouse.declaration.inference.readable_records import RecordParts
    from lakehouse.decoding.formats import Format
    from lakehouse.decoding.formats.format import Schemas
    from lakehouse.decoding.formats.parser import Parser
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

AnyRecord = TypeVar("AnyRecord")
_TOPIC = "A file does not show the name of its topic: topic= is the name of the table. Check it."
_HEADER = (
    "The first line has the names of the columns and is not a record. To read files that begin with it, write"
    " source=Files(..., header=...)."
)
_ELEMENTS = (
    "A line does not hold exactly one record. To read such files, write source=Files(..., each='element') in place of"
    " topic=. If a record of a topic has several, write rows_from=Explode((), single_object=True)."
)
_TITLES = (
    "{0} lines in front of the header are not records: source=Files(..., header=..., title_lines={0}). If the last"
    " lines of the files are totals, add total_lines=."
)
_MAX_TITLES = 20  # lines that are searched for a header
_MAX_SHOWN = 5  # fingerprints of schemas
_CHECKED = (
    "The registry has the schema of these records, and {} of {:,} meet it. To reject records that violate it, write"
    " format={}."
)
_TOPIC_NAME = (
    "The records come from {} topics. If ids are unique only within a topic, add the name of the topic to the columns"
    ' and to key=: Column("topic", "STRING", doc="", required=True, source=TopicName()). If records of the same key'
    " come in several topics, declare version=."
)
_PATTERN = "To read each topic whose name begins with {}, also later ones, write source=TopicPattern({})."
_WIDTH = 120


class Sample(NamedTuple):
    """The records of a sample: its lines, or the elements of its array or its objects if lines have parts of them."""

    values: list[bytes | None]
    are_elements: bool = False


def propose_for_sample(sample: Sample, where: str | None) -> "Proposal":
    """Propose columns for those records of a sample that meet a condition, or for all."""
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.declaration.inference.readable_records import RecordParts

    condition, (form, lines, notes) = None, _read_form(sample.values)
    notes = (*notes, _ELEMENTS) if sample.are_elements else notes
    if where:
        parts = [RecordParts(value, {}) for value in lines]
        lines, condition = choose(lines, parts, where, form.parser())
    proposal = _with_format_notes(propose(lines, form), lines)
    notes = (*notes, _TOPIC) if proposal.columns else ()
    return replace(proposal, where=condition, warnings=(*proposal.warnings, *notes))


def _read_form(lines: "Sequence[bytes | None]") -> "tuple[Format, Sequence[bytes | None], tuple[str, ...]]":
    """The format of the lines of a file, those that are records, and what to know of the others."""
    from lakehouse.decoding.formats import FORMATS, likely_formats

    form = likely_formats(lines)[0]
    for titles in range(min(_MAX_TITLES, len(lines))):
        form = likely_formats(lines[titles:])[0] if titles else form
        if titles and (not form.is_text or _is_row(form, lines[titles - 1])):
            break
        named_form = form.with_header([line for line in lines[titles:] if line])
        if named_form:
            return named_form, lines[titles + 1 :], (_HEADER, *([_TITLES.format(titles)] if titles else []))
    form = likely_formats(lines)[0]
    return form if form.documents or (form.is_text and form.written is None) else FORMATS[0], lines, ()


def _is_row(form: "Format", line: bytes | None) -> bool:
    """Whether a line may be a record: it has as many fields as the others, and each has a value."""
    from lakehouse.decoding.fields import Rejection

    with suppress(Rejection):
        return all(form.parser()(line).values())
    return False


def choose(
    records: "Sequence[AnyRecord]", parts: "Sequence[RecordParts]", condition_text: str, parser: "Parser"
) -> "tuple[list[AnyRecord], FieldIs | HeaderIs]":
    """Return the records that meet a condition, and the condition; raises ``LakehouseError`` if none meets it."""
    from lakehouse.declaration.inference.readable_records import choose_records, read_conditions

    chosen_records, condition = choose_records(records, parts, read_conditions(condition_text), parser)
    if condition is None:
        what = f"None of {len(records):,} records meets {condition_text}"
        raise LakehouseError(what, action="Correct --where, or read more records with --records.")
    return chosen_records, condition


def propose_for_topics(settings: "Settings", topics: Sequence[str], count: int, where: str | None) -> "Proposal":
    """Propose columns for the newest records of topics; looks up their schemas in a registry if they refer to any.

    Of several topics, an equal share of ``count`` is read of each. Raises ``RegistryError`` if the registry cannot be
    reached.
    """
    from lakehouse.decoding.formats import likely_formats
    from lakehouse.kafka import newest_records

    with broker(settings):
        share = max(1, count // len(topics))
        records = [record for topic in topics for record in newest_records(settings, topic, share)]
        values = [record.value for record in records]
        _require_known_schemas(values, topics[0])
        forms = likely_formats(values)
        needs_registry = forms[0].needs_schemas
        with registry(settings, needed=True) if needs_registry else nullcontext():
            form, schemas = _usable_format(settings, forms, values)
            proposal = _propose(settings, records, where, (form, schemas))
            notes = [*_check_notes(settings, proposal.form, values), *_topic_notes(topics)] if proposal.columns else []
            return replace(proposal, warnings=(*proposal.warnings, *notes))


def _usable_format(
    settings: "Settings", forms: "Sequence[Format]", values: "Sequence[bytes | None]"
) -> "tuple[Format, Schemas]":
    """The format with the most usable schemas; of equal ones, the first, or changes in their envelope."""
    from lakehouse.ingest.schema_resolution import look_up_schemas

    if not forms[0].needs_schemas:
        return forms[0], _known_schemas(settings, forms[0], values)
    schemas = [(form, look_up_schemas(settings, form, values)) for form in forms]
    return max(schemas, key=lambda candidate: _count_usable(*candidate))


def _count_usable(form: "Format", schemas: "Schemas") -> tuple[int, bool]:
    count = sum(map(form.may_use, schemas.by_id.values()))
    return count, form.has_changes and count > 0


def _known_schemas(settings: "Settings", form: "Format", values: "Sequence[bytes | None]") -> "Schemas":
    """The schemas of records that are decoded without them, if a registry that is running has any."""
    from lakehouse.decoding.formats.format import NO_SCHEMAS
    from lakehouse.errors import RegistryError
    from lakehouse.ingest.schema_resolution import look_up_schemas

    with suppress(RegistryError):
        return look_up_schemas(settings, form, values) if form.framed else NO_SCHEMAS
    return NO_SCHEMAS


def _require_known_schemas(values: "Sequence[bytes | None]", topic: str) -> None:
    """Refuse records in Avro's single-object encoding: their schemas are neither in a registry nor in the records."""
    from lakehouse.decoding.formats.avro.own_schemas import is_single_object, shown_fingerprint, split_single_object

    objects = [value for value in values if value and is_single_object(value)]
    if len(objects) * 2 > sum(map(bool, values)):
        fingerprints = sorted({shown_fingerprint(split_single_object(value)[0]) for value in objects})
        what = "The records are Avro in single-object encoding. The fingerprints of their schemas are"
        action = (
            "Declare the table with format=Avro(schemas=[...]), the texts of these schemas: see the page about Avro."
        )
        raise LakehouseError(f"{what} {', '.join(fingerprints[:_MAX_SHOWN])}", where=f"topic {topic}", action=action)


def _propose(
    settings: "Settings",
    records: "Sequence[Record]",
    where: str | None,
    reading: "tuple[Format, Schemas]",
) -> "Proposal":
    """Propose columns for the values and the keys of the records that are wished for."""
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.declaration.inference.proposed_changes import KeyedValue, propose_changes
    from lakehouse.declaration.inference.readable_records import RecordParts, header_notes

    form, schemas = reading
    condition = None
    if where:
        parts = [RecordParts(record.value, dict(record.headers)) for record in records]
        records, condition = choose(records, parts, where, form.for_schemas(schemas).parser(schemas))
    values = [record.value for record in records]
    keyed_values = [KeyedValue(record.key, record.value) for record in records]
    if form.has_changes and not form.documents and not where:
        return _with_format_notes(propose_changes(keyed_values, form, schemas), values)
    proposal = replace(propose(values, form, schemas, [record.key for record in records]), where=condition)
    proposal = _with_format_notes(_with_key(settings, proposal, keyed_values, schemas), values)
    notes = header_notes([dict(record.headers) for record in records]) if proposal.columns else ()
    return replace(proposal, warnings=(*proposal.warnings, *notes))


def _with_format_notes(proposal: "Proposal", values: "Sequence[bytes | None]") -> "Proposal":
    """The proposal, with why its format was recognised before all other warnings."""
    notes = proposal.form.notes([value for value in values if value]) if proposal.columns else ()
    return replace(proposal, warnings=(*notes, *proposal.warnings))


def _with_key(
    settings: "Settings", proposal: "Proposal", records: "Sequence[KeyedValue]", schemas: "Schemas"
) -> "Proposal":
    """The proposal with columns for keys, by their schemas if a registry that is running has them."""
    from lakehouse.declaration.inference.key_columns import are_framed, with_record_key, with_schema_key
    from lakehouse.decoding.formats import KEY_FORMATS

    keys = [record.key for record in records]
    if proposal.form.has_changes:
        return proposal
    for encoding, form in KEY_FORMATS.items() if are_framed(keys) else ():
        can_combine = not proposal.form.needs_schemas or proposal.form.schema_kind == form.schema_kind
        key_schemas = _known_schemas(settings, form, keys) if can_combine else None
        if key_schemas and key_schemas.by_id:
            keyed_proposal = with_schema_key(proposal, records, encoding, key_schemas, schemas)
            if keyed_proposal is not proposal:
                return keyed_proposal
    return with_record_key(proposal, records, schemas)


def _check_notes(settings: "Settings", form: "Format", values: "Sequence[bytes | None]") -> Iterator[str]:
    """How to check records by their schemas, if the registry has schemas that can do that."""
    from lakehouse.decoding.fields import Rejection

    checked_form = form.with_checks()
    schemas = _known_schemas(settings, checked_form, values) if checked_form != form else None
    if not schemas or not schemas.by_id:
        return
    parser, accepted = checked_form.parser(schemas), 0
    for value in values:
        with suppress(Rejection):
            accepted += bool(parser(value))
    shown_count = "all" if accepted == len(values) else f"{accepted:,}"
    yield _CHECKED.format(shown_count, len(values), checked_form.declared_as)


def _topic_notes(topics: Sequence[str]) -> Iterator[str]:
    """What to decide if there are several topics."""
    if len(topics) == 1:
        return
    yield _TOPIC_NAME.format(len(topics))
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(topics), max(topics), strict=False))
    prefix = "".join(character for character, _ in pairs)
    if prefix:
        yield _PATTERN.format(prefix, quote(prefix.replace(".", r"\.") + ".*"))


def declaration_text(table: str, topics: "Sequence[str]", proposal: "Proposal") -> str:
    """The text of a file with the proposed declaration, formatted as a person would write it."""
    format_text = proposal.form.declared_as
    records = f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"
    doc = f"Records of {records}: one row for each {', '.join(proposal.key) or 'record'}."
    topic_names = ", ".join(map(quote, topics))
    topic_text = f"source=Topics([{topic_names}])" if len(topics) > 1 else f"topic={topic_names}"
    parts = [f"name={quote(table)}", topic_text, f"doc={quote(doc)}", "file=__file__"]
    format_lines = _break_lines(f"format={format_text}")
    parts += ["\n".join(format_lines)] if format_text else []
    parts += [f"where={_condition(proposal.where)}"] if proposal.where else []
    parts += [] if proposal.rows_from is None else [f"rows_from={_rows_from(proposal)}"]
    columns = "".join(f"        {column_line(column)},\n" for column in proposal.columns)
    parts += [f"columns=[\n{columns}    ]", f"key=[{', '.join(map(quote, proposal.key))}]"]
    if proposal.month_of:
        parts.append(f"partition_by=Month({quote(proposal.month_of)})")
    comment = _comment(proposal) if proposal.warnings else ""
    body = "".join(f"    {part},\n" for part in parts)
    calls = set(re.findall(r"\b([A-Z]\w+)\(", re.sub(r'"[^"]*"', "", body)))
    imported_names = sorted({"StreamTable", *calls})
    head = f'"""The table of {records}."""\n\nfrom lakehouse import {", ".join(imported_names)}\n\n'
    return f"{head}{comment}{table} = StreamTable(\n{body})\n"


def _break_lines(text: str) -> list[str]:
    """The lines of an expression, which is broken only between its parts, not within a string."""
    whole_strings = re.sub('"[^"]*"', lambda match: match[0].replace(" ", "\0"), text)
    lines = wrap(
        *(whole_strings, _WIDTH - 5), subsequent_indent="        ", break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]


def _comment(proposal: "Proposal") -> str:
    """What the proposal was made from, and what a person has to check."""
    records = count_text(proposal.records, "record")
    texts = [f"Proposed from {records}. Check these points:", *(f"- {warning}" for warning in proposal.warnings)]
    lines = [wrap(text, _WIDTH - 2, subsequent_indent="  ", break_long_words=False) for text in texts]
    return "".join(f"# {line}\n" for text_lines in lines for line in text_lines)


def _rows_from(proposal: "Proposal") -> str:
    path = source_text(proposal.rows_from) if proposal.rows_from else "()"
    return f"Explode({path}, single_object=True)" if proposal.single_object else path


def _condition(condition: "FieldIs | HeaderIs") -> str:
    values = ", ".join(quote(value) if isinstance(value, str) else repr(value) for value in condition.values)
    place = source_text(condition.record_filter.path or (condition.record_filter.header_name,))
    return f"{type(condition).__name__}({place}, [{values}])"
