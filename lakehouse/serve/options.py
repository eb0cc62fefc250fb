"""The parameters of each path that are not filters, with their limits."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_MAX_ROWS = 10_000
_GREATEST_VERSION = 2**53 - 1


class VersionOption(BaseModel):
    """Which version is read."""

    version: int | None = Field(
        None, ge=0, le=_GREATEST_VERSION, description="The number of a version; default: the newest."
    )


class TableOptions(VersionOption):
    """Which version of a table is shown; there are no filters, so another parameter is misspelt."""

    model_config = ConfigDict(extra="forbid")


class PageOptions(BaseModel):
    """Which part of the result is read."""

    limit: int = Field(1_000, ge=1, le=_MAX_ROWS, description="Rows, groups or changes of a page.")
    page: str | None = Field(None, max_length=300, description="Where a page begins, from next of an answer.")


class RowOptions(PageOptions, VersionOption):
    """How rows are read."""

    columns: list[str] = Field([], description="Columns of the answer; default: all.")
    order: list[str] = Field([], description="Columns to order by; -COLUMN for the greatest first. NULL is last.")


class AggregateOptions(PageOptions, VersionOption):
    """How a column is aggregated."""

    column: str = Field(description="A numeric column.")
    by: list[str] = Field([], description="Columns: the rows of a group have equal values in them.")
    period: Literal["hour", "day", "month", "year"] | None = Field(None, description="Groups share it, UTC.")
    time: str | None = Field(None, description="The column of the period; default: the only one that has times.")


class ChangeOptions(PageOptions):
    """Which changes are read."""

    since: int = Field(ge=-1, le=_GREATEST_VERSION, description="Changes after this version of the table; -1 for all.")
