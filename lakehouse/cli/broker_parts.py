"""What ``doctor`` finds out about the broker, the topics, the schema registry and the connector of a change stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakehouse.cli.facts import judge_record
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.decoding.formats.format import Schemas
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

_NEWEST = 100  # records that are decoded
_SECONDS = 4.0  # to read them
_NOT_RUNNING = "Not running; commands that need it start it. lakehouse up keeps it running."


@dataclass(frozen=True)
class Part:
    """One part: ``ok``, ``broken`` (needed, but does not work) or ``note`` (worth knowing, not needed)."""

    part: str
    version: str
    state: Literal["ok", "broken", "note"]
    detail: str = ""


def examine_connectors(settings: "Settings", table: "StreamTable", *, can_read: bool) -> Iterator[Part]:
    """The settings that the declaration of a change stream requires, and newest records that contradict it.

    None for another table. ``can_read``: the broker answers and has the topic. Records whose schema no merge has stored
    yet are only named: the registry is not asked.
    """
    if table.has_changes:
        is_ok, text = _check_records(settings, table) if can_read else (False, "No record was read.")
        detail = f"{connector_text(table)}. {text}"
        yield Part(f"connector of {table.name}", table.format.declared_as, "ok" if is_ok else "note", detail)


def _check_records(settings: "Settings", table: "StreamTable") -> tuple[bool, str]:
    """Whether the newest records fit the declaration, and what they are."""
    from lakehouse.ingest.schema_resolution import kept_schemas
    from lakehouse.kafka import newest_records

    try:
        records = newest_records(settings, table.topic, _NEWEST, _SECONDS)
        problems = [*contradictions(table, records, kept_schemas(settings, table))]
    except LakehouseError as error:
        return False, f"No record was read: {error}"
    if problems:
        return False, f"Rejected among the newest {len(records)} records: {'; '.join(problems)}."
    return True, "The newest records fit." if records else "The topic has no records."


def connector_text(table: "StreamTable") -> str:
    """The settings of the connector in one line."""
    return "; ".join(f"{name}={value}" for name, value in table.format.connector_settings(table.fields).items())


def contradictions(table: "StreamTable", records: "Sequence[Record]", schemas: "Schemas") -> Iterator[str]:
    """Yield which records are rejected and why; of records with the same reason, the first one."""
    from lakehouse.kafka import is_timeless

    rules = table.rules(schemas)
    details = set[str]()
    for record in records:
        if is_timeless(record.milliseconds):
            continue
        verdict = judge_record(record, rules)
        if verdict.reason and verdict.detail not in details:
            details.add(str(verdict.detail))
            is_unknown = verdict.reason == "unknown_schema"
            detail = "no merge has stored its schema yet, so it was not decoded" if is_unknown else verdict.detail
            yield f"{record.place}, {verdict.reason}: {detail}"


def examine_properties(settings: "Settings") -> Iterator[Part]:
    """Other properties of Kafka's clients, only their names: the values may be secret."""
    from lakehouse.kafka import only_in_spark

    if settings.client_properties:
        names = only_in_spark(settings)
        detail = f"only Spark's client supports {', '.join(names)}" if names else "supported by every client"
        yield Part("Kafka properties", f"{len(settings.client_properties)} set", "note" if names else "ok", detail)


def examine_broker(settings: "Settings") -> Iterator[Part]:
    """The broker, and of each declared table its topic and its connector; an embedded broker need not run."""
    from lakehouse.kafka import topic_names
    from lakehouse.settings.addresses import bootstrap_servers

    kind = "outside" if settings.kafka_bootstrap_servers else "embedded"
    try:
        address = bootstrap_servers(settings)
        existing_topics = topic_names(settings)
    except BrokerError as error:
        is_broken = kind == "outside" or isinstance(error, BrokerRefusedError)
        state: Literal["broken", "note"] = "broken" if is_broken else "note"
        detail = str(error) if is_broken else _NOT_RUNNING
        yield Part(f"broker ({kind})", "", state, detail)
        for table in _valid_declarations(settings):
            yield from examine_connectors(settings, table, can_read=False)
        return
    yield Part(f"broker ({kind})", "", "ok", address)
    for table in _valid_declarations(settings):
        yield from _examine_topics(settings, table, existing_topics)
        yield from examine_connectors(settings, table, can_read=table.topic in existing_topics)


def _valid_declarations(settings: "Settings") -> "Sequence[StreamTable]":
    """The declared tables with topics; empty if they cannot be read, which the part ``declarations`` reports."""
    from lakehouse.discovery import declared_tables

    try:
        return [table for table in declared_tables(settings) if table.has_topics]
    except LakehouseError:
        return ()


def _examine_topics(settings: "Settings", table: "StreamTable", existing_topics: list[str]) -> Iterator[Part]:
    """The topics of a table; a pattern may match none."""
    from lakehouse.errors import TopicError
    from lakehouse.ingest.topics import split_by_topic

    try:
        for part in split_by_topic(settings, table):
            yield examine_topic(settings, part, existing_topics)
    except TopicError as error:
        yield Part(table.topic_text, "", "note", str(error))


def examine_topic(settings: "Settings", table: "StreamTable", existing_topics: list[str]) -> Part:
    """The topic of a table: its partitions, whether producers set its times, and what open transactions hold back."""
    from lakehouse.kafka import read_topic
    from lakehouse.ledger.positions import describe_held
    from lakehouse.operations.verify import producer_time

    name = f"topic {table.topic}"
    if table.topic not in existing_topics:
        return Part(name, "", "note", "Missing; create it with lakehouse topics --create.")
    try:
        state = read_topic(settings, table.topic, with_held=True)
    except LakehouseError as error:
        return Part(name, "", "broken", str(error))
    if table.has_changes and state.is_compacted is not False:
        detail = "It is compacted, or may be, but has changes of a database. Set cleanup.policy=delete."
        return Part(name, f"{len(state.end)} partitions", "broken", detail)
    finding = producer_time(state, table)
    is_fine = finding.passed and not state.held_parts
    detail = f"{finding.detail} {describe_held(state.held_parts, table.position_noun)}".rstrip()
    return Part(name, f"{len(state.end)} partitions", "ok" if is_fine else "note", detail)


def examine_registry(settings: "Settings") -> Iterator[Part]:
    """The schema registry, if a declared table needs it; an embedded one need not run."""
    if not any(table.has_schemas for table in _valid_declarations(settings)):
        return
    from lakehouse.errors import RegistryError
    from lakehouse.kafka.registry_client import Registry

    is_external = settings.registry_url is not None
    name = f"registry ({'outside' if is_external else 'embedded'})"
    try:
        yield Part(name, "", "ok", Registry(settings, patience=0).require_answer())
    except RegistryError as error:
        detail = str(error) if is_external else _NOT_RUNNING
        yield Part(name, "", "broken" if is_external else "note", detail)
