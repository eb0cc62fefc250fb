"""The paths of the API, all under ``/v1`` and all read-only."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from lakehouse.discovery import declared_outlets, outlets_of
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log import open_table, open_version
from lakehouse.operations.status import status, status_fields
from lakehouse.serve import models
from lakehouse.serve.database import Part, Statement, aggregate_rows, count_rows, select_rows
from lakehouse.serve.requests import (
    AggregateOptions,
    ChangeOptions,
    PageOptions,
    RowOptions,
    TableOptions,
    choose_grouping,
    read_condition,
    read_order,
    require_numeric,
)
from lakehouse.serve.snapshots import (
    Serving,
    Snapshot,
    answer,
    answer_without_version,
    changes_after,
    declared_table,
    existing_tables,
    find_feed,
    find_snapshot,
    order_of_changes,
    parse_page,
    rows_before,
    show_page,
)

_DOCUMENTED_FILTERS = {
    "parameters": [
        {
            "name": "filters",
            "in": "query",
            "style": "form",
            "explode": True,
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            "description": "COLUMN=value, as often as needed: a row has one of the values. COLUMN.from=value (or later)"
            " and COLUMN.to=value (before it) bound times and numbers. COLUMN.is=value is COLUMN=value, for a column"
            " with the name of another parameter.",
        }
    ]
}

router = APIRouter(prefix="/v1")
TableName = Annotated[str, Path(description="A table, as /v1/tables lists it.")]


@router.get("/tables", response_model=models.TableList)
def list_tables(request: Request) -> Response:
    """List all tables and their newest versions."""
    settings = Serving.of(request).settings
    tables = []
    for name in existing_tables(settings):
        listed_table: dict[str, Any] = {"name": name, "version": None, "problem": None}
        try:
            table = open_table(settings.table_uri(name))
            listed_table["version"] = table.version() if table else None
        except LakehouseError as error:
            listed_table["problem"] = str(error)
        tables.append(listed_table)
    return answer_without_version(request, {"tables": tables})


@router.get("/tables/{table}", response_model=models.TableFacts)
def show_table(request: Request, table: TableName, options: Annotated[TableOptions, Query()]) -> Response:
    """Show the columns and the number of rows of a version of a table."""
    serving = Serving.of(request)
    snapshot = find_snapshot(serving.settings, serving.database, table, options.version)

    def read() -> dict[str, Any]:
        (counts,) = serving.database.fetch(count_rows(snapshot.version), snapshot.version)
        stored_fields = open_version(snapshot.version.uri, snapshot.version.number).schema().fields
        fields = {field.name: field for field in stored_fields}
        columns = [
            {
                "name": name,
                "type": type_,
                "nullable": fields[name].nullable if name in fields else True,
                "description": fields[name].metadata.get("comment") if name in fields else None,
            }
            for name, type_ in snapshot.columns.items()
        ]
        return {**snapshot.fields, **counts, "columns": columns}

    return answer(request, snapshot.tag, read)


@router.get("/tables/{table}/rows", response_model=models.RowPage, openapi_extra=_DOCUMENTED_FILTERS)
def read_rows(request: Request, table: TableName, options: Annotated[RowOptions, Query()]) -> Response:
    """Read rows of a table. The next page is of the same version; rows that ``order`` leaves equal keep their place."""
    snapshot = _snapshot_of_page(request, table, options)
    chosen_columns = snapshot.column_of(options.columns, "columns") or list(snapshot.columns)
    condition = read_condition(snapshot, request.query_params.multi_items(), type(options).model_fields)
    order_of_rows = read_order(snapshot, options.order)

    def select(part: Part) -> Statement:
        return select_rows(snapshot.version, chosen_columns, condition, order_of_rows, part)

    return _answer_page(request, snapshot, options, select, lambda rows: {**snapshot.fields, **rows})


@router.get("/tables/{table}/aggregates", response_model=models.AggregatePage, openapi_extra=_DOCUMENTED_FILTERS)
def read_aggregates(request: Request, table: TableName, options: Annotated[AggregateOptions, Query()]) -> Response:
    """Read minimum, maximum, average and count of a column, by columns and period."""
    snapshot = _snapshot_of_page(request, table, options)
    require_numeric(snapshot, options.column)
    grouping = choose_grouping(snapshot, options.by, options.period, options.time)
    condition = read_condition(snapshot, request.query_params.multi_items(), type(options).model_fields)

    def shown_groups(rows: dict[str, Any]) -> dict[str, Any]:
        groups = [grouping.name_values(row) for row in rows["rows"]]
        return {**snapshot.fields, "column": options.column, "groups": groups, "next": rows["next"]}

    def aggregate(part: Part) -> Statement:
        column = options.column, snapshot.columns[options.column]
        return aggregate_rows(snapshot.version, column, grouping, condition, part)

    return _answer_page(request, snapshot, options, aggregate, shown_groups)


@router.get("/tables/{table}/changes", response_model=models.ChangePage, openapi_extra=_DOCUMENTED_FILTERS)
def read_changes(request: Request, table: TableName, options: Annotated[ChangeOptions, Query()]) -> Response:
    """Read the changes of a table since a version, from its change feed."""
    serving = Serving.of(request)
    place = parse_page(options.page)
    feed, consumed = find_feed(serving.settings, serving.database, table, place.version if place else None)
    own_condition = read_condition(feed, request.query_params.multi_items(), type(options).model_fields)
    condition = changes_after(own_condition, consumed, options.since)

    def select(part: Part) -> Statement:
        return select_rows(feed.version, list(feed.columns), condition, order_of_changes(feed), part)

    def shown_changes(rows: dict[str, Any]) -> dict[str, Any]:
        versions = {"version": consumed.version, "table_id": consumed.table_id, "feed_version": feed.version.number}
        return {"table": table, **versions, "changes": rows["rows"], "next": rows["next"]}

    return _answer_page(request, feed, options, select, shown_changes)


@router.get("/tables/{table}/status", response_model=models.StatusAnswer)
def show_status(request: Request, table: TableName) -> Response:
    """Show progress, lag and counts of a declared table, as ``lakehouse status --json`` does."""
    settings = Serving.of(request).settings
    stream_table = declared_table(settings, table)
    outlets = outlets_of(stream_table, declared_outlets(settings))
    fields = status_fields(status(settings, stream_table, outlets))
    return answer_without_version(request, fields, fields["version"])


def _snapshot_of_page(request: Request, table: str, options: RowOptions | AggregateOptions) -> Snapshot:
    serving, place = Serving.of(request), parse_page(options.page)
    return find_snapshot(serving.settings, serving.database, table, place.version if place else options.version)


def _answer_page(
    request: Request,
    snapshot: Snapshot,
    options: PageOptions,
    select: Callable[[Part], Statement],
    shown_fields: Callable[[dict[str, Any]], dict[str, Any]],
) -> Response:
    """Return a page of the rows of a statement, as ``shown_fields`` shows them."""
    part = Part(options.limit, rows_before(request, snapshot, parse_page(options.page)))

    def read() -> dict[str, Any]:
        rows = Serving.of(request).database.fetch_page(select(part), snapshot.version, part.count)
        return shown_fields(show_page(request, snapshot, rows, part))

    return answer(request, snapshot.tag, read)
