"""CloudEvents whose attributes are headers with the prefix ``ce_``: a column for each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse.declaration.inference.proposal import Proposal
from lakehouse.declaration.inference.proposed_key import EVENT_ATTRIBUTES, EVENT_IDENTITY, is_event
from lakehouse.declaration.inference.proposed_types import fits
from lakehouse.declaration.names import is_name
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.record_parts import RecordHeader
from lakehouse.decoding.time_texts import ISO8601

_PREFIX = "ce_"
_LOG_TABLE = "the table is a log table"  # of the warnings about a table without a key
_HEADERS = "The records are CloudEvents, whose attributes are headers. They are columns with the prefix ce_."
_SEVERAL_TYPES = "The events have several types, by the header ce_type: {}. For a table per type, add for example {}."


def with_event_headers(proposal: Proposal, headers: Sequence[Mapping[str, bytes]]) -> Proposal:
    """Return the proposal with a column for each attribute of events, if all records have them in their headers."""
    attributes = [_attributes_in(record_headers) for record_headers in headers]
    if not attributes or not proposal.columns or not all(is_event(event) for event in attributes):
        return proposal
    taken_names = {column.name for column in proposal.columns}
    names = dict.fromkeys((*EVENT_IDENTITY, *(name for event in attributes for name in event)))
    columns = [_column(name, attributes) for name in names if f"{_PREFIX}{name}" not in taken_names]
    types = Counter(event["type"] for event in attributes)
    event_key = tuple(f"{_PREFIX}{name}" for name in EVENT_IDENTITY)
    keeps_key = (bool(proposal.key) and len(types) == 1) or not taken_names.isdisjoint(event_key)
    keeps_key |= proposal.rows_from is not None  # all rows of an event have its attributes
    warnings = [_HEADERS]
    if len(types) > 1:
        shown_types = ", ".join(f"{name} ({count:,})" for name, count in types.most_common(4))
        warnings.append(
            _SEVERAL_TYPES.format(shown_types, f"--where header:{_PREFIX}type={types.most_common(1)[0][0]}")
        )
    return replace(
        proposal,
        columns=(*columns, *proposal.columns),
        key=proposal.key if keeps_key else event_key,
        month_of=proposal.month_of if keeps_key else None,
        warnings=(*warnings, *(text for text in proposal.warnings if keeps_key or _LOG_TABLE not in text)),
    )


def _attributes_in(headers: Mapping[str, bytes]) -> dict[str, str]:
    """The attributes in headers that can become columns."""
    texts = {name: value.decode("utf-8", "replace") for name, value in headers.items() if name.startswith(_PREFIX)}
    return {name.removeprefix(_PREFIX): text for name, text in texts.items() if is_name(name)}


def _column(attribute: str, events: Sequence[Mapping[str, str]]) -> Column:
    texts = [event[attribute] for event in events if attribute in event]
    is_time = attribute == "time" and fits(texts, "TIMESTAMP", ISO8601)
    name = f"{_PREFIX}{attribute}"
    return Column(
        name,
        "TIMESTAMP" if is_time else "STRING",
        "",
        required=len(texts) == len(events) and attribute in EVENT_ATTRIBUTES,
        source=RecordHeader(name),
        pattern=ISO8601 if is_time else None,
    )
