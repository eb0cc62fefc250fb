"""The declaration that a flow becomes: its options, and the types of columns from records if there are any."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakehouse.declaration.delete_conditions import FieldIs
from lakehouse.declaration.inference.auto_cdc.flow import AutoCdcFlow
from lakehouse.declaration.inference.proposal import DEFAULT_FORMAT, Proposal, propose
from lakehouse.declaration.names import column_name
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.errors import LakehouseError

_SCD_TYPE_2 = (
    "The flow stores the history (SCD type 2). The table has only the current rows. Its change feed, NAME_changes, has"
    " the values before and after each change, with these differences: it has one row per key and commit, so several"
    " changes of a key in one batch are one row; a change that arrives after a newer one is not in it; its order is"
    " number, then source_version; and it has no __START_AT and __END_AT."
)
_TRACKED = "The flow keeps the history of some columns. The change feed has a row for a change of any column."
_ONCE = "The flow reads its source once. The table also merges the records that follow."
_MAX_SHOWN = 20  # fields in an error
_KINDS = {"STRING": str, "BIGINT": int, "INT": int, "BOOLEAN": bool}


def propose_flow(
    flow: AutoCdcFlow,
    topic: str,
    values: Sequence[bytes | None],
    form: Format = DEFAULT_FORMAT,
    schemas: Schemas = NO_SCHEMAS,
) -> Proposal:
    """Propose a declaration for a flow from the values of some records of its topic; pure and deterministic.

    Only the key and the version are required. Raises ``LakehouseError`` if no record has one of these fields.
    """
    seen_columns = propose(values, form, schemas, only=lambda _: True).columns
    if not seen_columns:
        return propose(values, form, schemas)
    fields = list(dict.fromkeys(column.field.names[0] for column in seen_columns))
    flow = _as_records_spell(flow, fields)
    scalar_fields = {column.field.names[0] for column in seen_columns if len(column.field.names) == 1}
    for name in flow.needed:
        if name not in scalar_fields:
            what = f"The flow needs the field {name!r}, but no column can be read from it in topic {topic}"
            shown_fields = f"The fields are {', '.join(fields[:_MAX_SHOWN])}"
            raise LakehouseError(f"{what}. {shown_fields}", where=flow.place, action=_of_topics(flow))
    proposal = propose(values, form, schemas, only=lambda name: name in flow.needed or flow.selects(name))
    warnings = [
        *_flow_warnings(flow, topic),
        *_condition_warnings(flow, seen_columns),
        *_missing_columns(flow, fields),
        *proposal.warnings,
    ]
    return _with_options(replace(proposal, warnings=tuple(warnings)), flow)


def propose_names(flow: AutoCdcFlow, topic: str) -> Proposal:
    """Propose a declaration for a flow alone: only the columns that it names, with types that a person has to check.

    Raises ``LakehouseError`` if the name of a field cannot become the name of a column.
    """
    flow = _as_records_spell(flow, flow.included or flow.needed)
    selected_names = [name for name in flow.included or () if flow.selects(name)]
    columns = [_named_column(name, flow) for name in dict.fromkeys((*flow.needed, *selected_names))]
    names = ", ".join(column.name for column in columns)
    untyped = f"{names}: check each type, as the flow only has the names. Better, name a topic: --from-topic TOPIC."
    unnamed = "The flow names no other columns. Add those that the records have." if flow.included is None else ""
    warnings = [text for text in (untyped, unnamed) if text]
    proposal = Proposal(tuple(columns), (), None, (), 0, 0, "", DEFAULT_FORMAT)
    return _with_options(replace(proposal, warnings=(*_flow_warnings(flow, topic), *warnings)), flow)


def _of_topics(flow: AutoCdcFlow) -> str:
    return f"Name the topic that has the records of {flow.source or 'the source of the flow'}: --from-topic TOPIC."


def _named_column(name: str, flow: AutoCdcFlow) -> Column:
    column = column_name(name)
    if column is None:
        what = f"The field {name!r} cannot become a column by its name"
        raise LakehouseError(what, where=flow.place, action="Name a topic, so that its records are read: --from-topic.")
    column_type = "BIGINT" if name == flow.sequence and name not in flow.keys else "STRING"
    return Column(column, column_type, "", source=None if column == name else name)


def _as_records_spell(flow: AutoCdcFlow, fields: Sequence[str]) -> AutoCdcFlow:
    """The flow with the names that the fields have in records: Spark does not distinguish their case."""

    def spell(name: str) -> str:
        matches = [field for field in fields if field.lower() == name.lower()]
        return matches[0] if len(matches) == 1 and name not in fields else name

    def spell_all(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(spell, names))

    def spell_condition(condition: FieldIs | None) -> FieldIs | None:
        if condition is None:
            return None
        first, *inner_names = condition.path
        return FieldIs((spell(first), *inner_names) if inner_names else spell(first), condition.values)

    return replace(
        flow,
        keys=spell_all(flow.keys),
        sequence=spell(flow.sequence),
        deletes=spell_condition(flow.deletes),
        truncates=spell_condition(flow.truncates),
        included=None if flow.included is None else spell_all(flow.included),
        excluded=spell_all(flow.excluded),
    )


def _flow_warnings(flow: AutoCdcFlow, topic: str) -> Iterator[str]:
    """What the table does differently from the flow."""
    source = f"The flow reads {flow.source!r}" if flow.source else "The flow reads a source with a computed name"
    yield f"{source}, the table the topic {topic}. Check that both have the same records."
    for name in flow.needed:
        if not flow.selects(name):
            reason = "the key" if name in flow.keys else "the version, which orders the records"
            yield f"The flow leaves out {name!r}. It is a column here, because it is {reason}."
    if flow.scd_type == 2:
        yield _SCD_TYPE_2
    if flow.tracks_some:
        yield _TRACKED
    if flow.is_once:
        yield _ONCE


def _condition_warnings(flow: AutoCdcFlow, seen_columns: Sequence[Column]) -> Iterator[str]:
    """What the records say against the conditions for deletes and truncates."""
    types = {column.field.names: column.type for column in seen_columns}
    for option, condition in (("apply_as_deletes", flow.deletes), ("apply_as_truncates", flow.truncates)):
        if condition is None:
            continue
        column_type = types.get(condition.path)
        field = ".".join(condition.path)
        if column_type is None:
            yield f"{option}: these records have no field {field!r}. Write its name as the records do."
        elif any(type(value) is not _KINDS.get(column_type) for value in condition.values):
            values = ", ".join(map(repr, condition.values))
            fact = f"{field!r} is {column_type} in these records, and never equals {values}"
            yield f"{option}: {fact}. Correct the values."


def _missing_columns(flow: AutoCdcFlow, fields: Sequence[str]) -> Iterator[str]:
    for name in flow.included or ():
        if name not in fields:
            yield f"Field {name!r} is left out: these records do not have it. Declare it with its type."


def _with_options(proposal: Proposal, flow: AutoCdcFlow) -> Proposal:
    """The proposal with the options of the flow."""
    names = {column.field.names: column.name for column in proposal.columns}
    key = tuple(names[(name,)] for name in flow.keys)
    version = names[(flow.sequence,)]
    columns = tuple(
        replace(column, required=is_needed, keep=flow.ignores_nulls and not is_needed)
        for column in proposal.columns
        for is_needed in [column.name in (*key, version)]
    )
    return replace(
        proposal,
        columns=columns,
        key=key,
        version=version,
        deletes=flow.deletes,
        truncates=flow.truncates,
        origin=f"the flow in {flow.place!r}",
    )
