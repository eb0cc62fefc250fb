"""Records of OpenTelemetry in JSON: a table of logs, whose fields are known, and attributes in other records."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.record_parts import ParentField
from lakehouse.decoding.values import convert_value

_MAP = "MAP<STRING, STRING>"
_RESOURCE, _SCOPE = "resourceLogs[]", "scopeLogs[]"
ROWS_OF_LOGS = (_RESOURCE, _SCOPE, "logRecords")
"""The way to the rows of logs."""
LOGS_NOTE = (
    "The records are logs of OpenTelemetry (OTLP): each log record is a row. The columns are those of the protocol,"
    " also if these records do not have all of them. Attributes are maps of texts: see docs/how-to/otlp-logs.md."
)


def columns_of_logs() -> tuple[Column, ...]:
    """The columns of log records, with those of their resource and scope."""
    return (
        _time("time", "timeUnixNano"),
        _time("observed_time", "observedTimeUnixNano"),
        Column("severity_number", "INT", "", source="severityNumber"),
        Column("severity_text", "STRING", "", source="severityText"),
        Column("body", "STRING", "", written="otlp"),
        Column("attributes", _MAP, "", written="otlp"),
        Column("trace_id", "STRING", "", source="traceId"),
        Column("span_id", "STRING", "", source="spanId"),
        Column("flags", "BIGINT", ""),
        Column("event_name", "STRING", "", source="eventName"),
        Column("resource", _MAP, "", source=ParentField((_RESOURCE, "resource", "attributes")), written="otlp"),
        Column("scope", "STRING", "", source=ParentField((_RESOURCE, _SCOPE, "scope", "name"))),
    )


def are_logs(objects: Sequence[dict[str, Any]]) -> bool:
    """Whether records are logs of OpenTelemetry, of which at least one has a log record."""
    has_rows = False
    for content in objects:
        if content.keys() != {"resourceLogs"}:
            return False
        scopes = [
            scope for resource in _objects_in(content, "resourceLogs") for scope in _objects_in(resource, "scopeLogs")
        ]
        has_rows |= any(_objects_in(scope, "logRecords") for scope in scopes)
    return has_rows


def _objects_in(content: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = content.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _time(name: str, source: str) -> Column:
    return Column(
        name, "TIMESTAMP", "", source=source, epoch="nanoseconds", written="text_or_number", null_values=("0",)
    )


def with_attributes(column: Column, values: Sequence[Any]) -> Column:
    """Return a column as a map if all of its values are attributes of OpenTelemetry."""
    map_column = replace(column, type=_MAP, pattern=None, epoch=None, written="otlp")
    try:
        maps = [convert_value(value, map_column.field) for value in values]
    except Rejection:
        return column
    return map_column if any(text is not None for pairs in maps for _, text in pairs or ()) else column
