"""What ``doctor`` says about the connector of a change stream: its settings, and records that contradict them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakehouse.cli.examined_part import Part
from lakehouse.cli.judged_records import judge_record
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.decoding.formats.format import Schemas
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

_NEWEST = 100  # records that are decoded
_SECONDS = 4.0  # to read them


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
    from lakehouse.ingest.kept_schemas import kept_schemas
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
