"""What ``new-table`` proposes a declaration from: a topic, a sample or a flow of AUTO CDC."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from lakehouse.cli.table_session import broker, registry
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration.inference.auto_cdc.flow import AutoCdcFlow
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.decoding.formats import Format
    from lakehouse.decoding.formats.format import Schemas
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

_MAX_SHOWN = 5  # fingerprints of schemas


class Wish(NamedTuple):
    """What a table is proposed for: a flow of AUTO CDC, the records that meet a condition, or all records."""

    flow: "AutoCdcFlow | None" = None
    where: str | None = None


def propose_for_topic(settings: "Settings", topic: str, count: int, wish: Wish) -> "Proposal":
    """Propose columns for the newest records of a topic; looks up their schemas in a registry if they refer to any.

    Raises ``RegistryError`` if the registry cannot be reached.
    """
    from lakehouse.decoding.formats import likely_formats
    from lakehouse.kafka import newest_records

    with broker(settings):
        records = newest_records(settings, topic, count)
        values = [record.value for record in records]
        _require_known_schemas(values, topic)
        formats = likely_formats(values)
        if not formats[0].needs_schemas:
            schemas_of_json = _known_schemas(settings, formats[0], values)
            proposal = _propose(records, topic, wish, formats[0], schemas_of_json)
            return _with_notes(_with_key(settings, proposal, records, wish), values)
        from lakehouse.ingest.schema_resolution import look_up_schemas

        with registry(settings, needed=True):
            schemas = [(form, look_up_schemas(settings, form, values)) for form in formats]
            # of formats that can use equally many schemas, the first one, or changes in their envelope
            proposal = _propose(records, topic, wish, *max(schemas, key=lambda candidate: _count_usable(*candidate)))
            return _with_notes(_with_key(settings, proposal, records, wish), values)


def _known_schemas(settings: "Settings", form: "Format", values: "Sequence[bytes | None]") -> "Schemas | None":
    """The schemas of records that are decoded without them, if a registry that is running has any."""
    from lakehouse.errors import RegistryError
    from lakehouse.ingest.schema_resolution import look_up_schemas

    with suppress(RegistryError):
        return look_up_schemas(settings, form, values) if form.framed else None
    return None


def _with_key(settings: "Settings", proposal: "Proposal", records: "Sequence[Record]", wish: Wish) -> "Proposal":
    """The proposal with columns for keys that have the id of a schema in front, if a registry that is running has it.

    A flow has its own key, and a row of a database contains it.
    """
    from lakehouse.declaration.inference.schema_keys import are_framed, with_schema_key
    from lakehouse.decoding.formats import KEY_FORMATS

    keys = [record.key for record in records]
    if wish.flow or proposal.form.has_changes or not are_framed(keys):
        return proposal
    for encoding, form in KEY_FORMATS.items():
        can_combine = not proposal.form.needs_schemas or proposal.form.schema_kind == form.schema_kind
        schemas = _known_schemas(settings, form, keys) if can_combine else None
        if schemas and schemas.by_id:
            return with_schema_key(proposal, keys, encoding, schemas)
    return proposal


def _with_notes(proposal: "Proposal", values: "Sequence[bytes | None]") -> "Proposal":
    """The proposal, with why its format was recognised before all other warnings."""
    notes = proposal.form.notes([value for value in values if value]) if proposal.columns else ()
    return replace(proposal, warnings=(*notes, *proposal.warnings))


def _require_known_schemas(values: "Sequence[bytes | None]", topic: str) -> None:
    """Refuse records in Avro's single-object encoding: their schemas are neither in a registry nor in the records."""
    from lakehouse.decoding.formats.avro.single_objects import is_single_object, shown_fingerprint, split_single_object

    objects = [value for value in values if value and is_single_object(value)]
    if len(objects) * 2 > sum(map(bool, values)):
        fingerprints = sorted({shown_fingerprint(split_single_object(value)[0]) for value in objects})
        what = "The records are Avro in single-object encoding. The fingerprints of their schemas are"
        action = (
            "Declare the table with format=Avro(schemas=[...]), the texts of these schemas: see the page about Avro."
        )
        raise LakehouseError(f"{what} {', '.join(fingerprints[:_MAX_SHOWN])}", where=f"topic {topic}", action=action)


def _count_usable(form: "Format", schemas: "Schemas") -> tuple[int, bool]:
    count = sum(map(form.may_use, schemas.by_id.values()))
    return count, form.has_changes and count > 0


def _propose(
    records: "Sequence[Record]",
    topic: str,
    wish: Wish,
    form: "Format",
    schemas: "Schemas | None" = None,
) -> "Proposal":
    """Propose columns for the records of a topic in a format."""
    from lakehouse.declaration.inference.auto_cdc.proposed_flow import propose_flow
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.cloud_events import with_event_headers
    from lakehouse.declaration.inference.proposal import propose
    from lakehouse.declaration.inference.proposed_changes import KeyedValue, propose_changes
    from lakehouse.decoding.formats.format import NO_SCHEMAS

    values, flow = [record.value for record in records], wish.flow
    if wish.where:
        parts = [RecordParts(record.value, dict(record.headers)) for record in records]
        return _propose_chosen(parts, wish.where, form, schemas or NO_SCHEMAS)
    if form.has_changes and flow:
        what = f"The records of topic {topic} are changes of a database, which have their own order and deletes"
        raise LakehouseError(what, where=flow.place, action=f"Propose without the flow: --from-topic {topic} alone.")
    if form.has_changes:
        keyed_values = [KeyedValue(record.key, record.value) for record in records]
        return propose_changes(keyed_values, form, schemas or NO_SCHEMAS)
    if flow:
        return propose_flow(flow, topic, values, form, schemas or NO_SCHEMAS)
    proposal = propose(values, form, schemas or NO_SCHEMAS)
    return with_event_headers(proposal, [dict(record.headers) for record in records])


def _propose_chosen(
    records: "Sequence[RecordParts]", condition_text: str, form: "Format", schemas: "Schemas"
) -> "Proposal":
    """Propose columns for the records that meet a condition; raises ``LakehouseError`` if none does."""
    from lakehouse.declaration.inference.chosen_records import choose_records, read_conditions
    from lakehouse.declaration.inference.cloud_events import with_event_headers
    from lakehouse.declaration.inference.proposal import propose

    conditions = read_conditions(condition_text)
    chosen_records, condition = choose_records(records, records, conditions, form.for_schemas(schemas).parser(schemas))
    if condition is None:
        what = f"None of {len(records):,} records meets {condition_text}"
        raise LakehouseError(what, action="Correct --where, or read more records with --records.")
    proposal = propose([record.value for record in chosen_records], form, schemas)
    return replace(with_event_headers(proposal, [record.headers for record in chosen_records]), where=condition)


def propose_without_topic(values: "Sequence[bytes | None] | None", topic: str, wish: Wish) -> "Proposal":
    """Propose columns for the lines of a sample; those that the flow names if there is no sample."""
    from lakehouse.declaration.inference.auto_cdc.proposed_flow import propose_flow, propose_names
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.proposal import DEFAULT_FORMAT, propose
    from lakehouse.decoding.formats.format import NO_SCHEMAS

    if wish.where:
        parts = [RecordParts(value, {}) for value in values or []]
        return _propose_chosen(parts, wish.where, DEFAULT_FORMAT, NO_SCHEMAS)
    if flow := wish.flow:
        return propose_names(flow, topic) if values is None else propose_flow(flow, topic, values)
    return propose(values or [])


def read_flow(file: str, table: str) -> "AutoCdcFlow":
    """The flow of a file for a table; raises ``LakehouseError`` if none can be chosen or translated."""
    from lakehouse.declaration.inference.auto_cdc.select import read_flow as select_flow

    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"{file} cannot be read: {reason}", param_hint="--from-auto-cdc") from None
    return select_flow(text, file, table)


def topic_of(flow: "AutoCdcFlow") -> str:
    """The topic that the source of a flow may be named after; raises ``LakehouseError`` if no topic has such a name."""
    from lakehouse.declaration.rules.topic_rules import TOPIC

    if not TOPIC.fullmatch(flow.topic):
        what = f"The source of the flow does not name a topic: {flow.source or 'its name is computed'}"
        raise LakehouseError(what, where=flow.place, action="Name the topic: --from-topic TOPIC.")
    return flow.topic


def read_sample(file: str, count: int) -> list[bytes | None]:
    """The lines of a sample that are not empty, at most ``count``."""
    try:
        with Path(file).open("rb") as lines:
            return [line.strip() for line, _ in zip(lines, range(count), strict=False) if line.strip()]
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from-sample") from None
