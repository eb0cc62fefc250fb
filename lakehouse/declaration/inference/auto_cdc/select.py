"""The flow of a file that becomes a table."""

from lakehouse.declaration.inference.auto_cdc import python_flows, sql_flows
from lakehouse.declaration.inference.auto_cdc.flow import AutoCdcFlow, FlowPlace, last_part
from lakehouse.declaration.names import column_name
from lakehouse.errors import LakehouseError

_READERS = {".py": python_flows.find_flows, ".sql": sql_flows.find_flows}
_NO_FLOW = (
    "Name a file that calls create_auto_cdc_flow or apply_changes, or that has AUTO CDC INTO, FLOW AUTO CDC or APPLY"
    " CHANGES INTO."
)


def read_flow(text: str, file: str, table: str) -> AutoCdcFlow:
    """The flow whose target is the table, or the only flow of the file.

    Raises ``LakehouseError`` if there is none, if several flows may be meant, or if the flow cannot be translated.
    """
    suffix = file[file.rfind(".") :].lower()
    if suffix not in _READERS:
        raise LakehouseError(
            "The type of the file is unknown",
            where=file,
            action="Name a file that ends in .py or .sql. Export a notebook as Python.",
        )
    flows = _READERS[suffix](text, file)
    if not flows:
        raise LakehouseError("The file has no flow of AUTO CDC", where=file, action=_NO_FLOW)
    return _select(flows, file, table).read()


def _select(flows: list[FlowPlace], file: str, table: str) -> FlowPlace:
    if len(flows) == 1:
        return flows[0]
    candidates = [
        flow for flow in flows if table in (last_part(flow.target).lower(), column_name(last_part(flow.target)))
    ]
    if len(candidates) == 1:
        return candidates[0]
    targets = ", ".join(flow.target or f"a computed name ({flow.place})" for flow in flows)
    problem = f"None of the flows has the target {table}"
    action = "Name the table after a target, or copy the flow into a file of its own."
    if len(candidates) > 1:
        problem = f"{len(candidates)} of the {len(flows)} flows have the target {table}, but a table reads one topic"
        action = "Copy one of them into a file of its own."
    raise LakehouseError(f"{problem}. The targets are {targets}", where=file, action=action)
