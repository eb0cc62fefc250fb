"""The rules of a table. Each rule yields what is wrong, and what to do; the first problem is raised."""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import chain

from lakehouse.declaration.columns import Column, Computed, has_more_places
from lakehouse.declaration.conditions import Deletes
from lakehouse.declaration.names import FEED_COLUMNS, name_problems, spelling_hint
from lakehouse.declaration.rules.column_rules import columns_problems
from lakehouse.declaration.rules.condition_rules import (
    check_problems,
    computed_problems,
    filter_problems,
    reject_problems,
    rollup_problems,
)
from lakehouse.declaration.rules.delete_rules import change_problems, delete_problems
from lakehouse.declaration.rules.field_types import field_problems
from lakehouse.declaration.rules.format_rules import format_column_problems, invalid_problems, reference_format_problems
from lakehouse.declaration.rules.rows_rules import array_problems, reference_array_problems, rows_problems
from lakehouse.declaration.rules.source_rules import header_problems, source_problems
from lakehouse.declaration.rules.written_rules import binary_table_problems, is_binary, key_table_problems
from lakehouse.declaration.samples import SampleRecords
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Reference, Version
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import format_problems
from lakehouse.decoding.record_parts import TIME, VALUE
from lakehouse.decoding.unmapped_fields import taken_paths
from lakehouse.decoding.written_forms import becomes_json

_NULLS = (
    'Write version=Version("{}", nulls="oldest"), nulls="newest" if such a record replaces all others, or'
    ' nulls="reject"; or declare the column with required=True.'
)
_NULLS_OF_COMPUTED = (
    'Write Version(..., nulls="oldest"), or nulls="newest" if such a record replaces all others. To reject it, add a'
    " rule to rejects."
)
_OF_OWNER = "Write team:NAME, or an e-mail address with 2 to 7 letters after the last dot."
_OWNER = re.compile(r"team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
_NAME_SOURCE = "Choose another name, and set source= to the name of the field."
_BINARY_TEXT = "If the field is a text, a STRING without written holds it as it is."
_NESTED_SOURCE = "A field within an object can be a column of its own, with its path as source."
_MIN_RETENTION = timedelta(hours=1)  # longer than any batch runs: VACUUM cannot distinguish its files from unused ones
_MAX_RETENTION = timedelta(days=36_525)
_MIN_FRESH = timedelta(seconds=30)  # six ticks of the sensor: one slow tick breaks no promise
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MIN_MAINTENANCE = timedelta(minutes=5)
_MAX_CLUSTERED = 4


def table_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with a declaration; a rule may rely on the rules before it."""
    for name in ("doc", "columns", "key"):
        if getattr(table, name) is None:  # their default, because a topic may be left out before them
            yield f"{name} is missing", f"Add {name}=... to it."
    yield from field_problems(table)
    yield from chain(
        _table_names(table),
        source_problems(table),
        _choices(table),
        format_problems(table.format),
        period_problems(table),
        columns_problems(table.columns, typed_by=table.format.name if table.format.typed else ""),
        computed_problems(table),
        _scalar_columns(table),
        binary_table_problems(table),
        key_table_problems(table),
        format_column_problems(table),
        key_problems(table.key, table.columns) if table.key else _log_table(table),
        _version(table),
        rows_problems(table),
        array_problems(table),
        change_problems(table),
        invalid_problems(table),
        delete_problems(table),
        filter_problems(table),
        partition_problems(table),
        clustering_problems(table),
        _widening_problems(table),
        _former_fields(table),
        _lateness(table),
        _base(table),
        _reserved_columns(table),
        check_problems(table),
        *(rollup_problems(rollup, table) for rollup in table.rollups),
        *(_reference(reference) for reference in table.references),
        reject_problems(table),
        _samples(table),
    )


def _table_names(table: TableParts) -> Iterator[Problem]:
    for name, count in Counter(table.names).items():
        subject = "the name" if name == table.name else f"the name {name!r}"  # an error starts with that of the table
        yield from name_problems(name, subject)
        if count > 1:
            message = f"two parts of the declaration have the name {name}"
            yield message, "Rename one of them. Each is the folder of a table, or a name in Dagster."


def _choices(table: TableParts) -> Iterator[Problem]:
    if not _OWNER.fullmatch(table.owner):
        yield f"owner {table.owner!r} is neither a team nor an e-mail address", _OF_OWNER
    if table.max_records < 1:
        yield f"max_records is {table.max_records}, but the minimum is 1", "Declare 1 or more."


def key_problems(key: Sequence[str], columns: Sequence[Column | Computed]) -> Iterator[Problem]:
    """What is wrong with the key of a table of these columns."""
    if not key:
        yield "key is empty", "Name the columns that identify a row."
    names = [column.name for column in columns]
    required_columns = {column.name for column in columns if isinstance(column, Computed) or column.required}
    for name, count in Counter(key).items():
        if name not in names:
            yield f"unknown column in key: {name}", f"{spelling_hint(name, names)}The columns are {', '.join(names)}."
        elif name not in required_columns:
            yield f"key column {name} is not required", "Declare it with required=True, without default and keep."
        if count > 1:
            yield f"key column {name} is listed twice", "List it once."


def _log_table(table: TableParts) -> Iterator[Problem]:
    """Options about rows that replace other rows: they do not apply to a log table."""
    if not table.columns:
        yield "columns is empty", "Declare the columns of its rows."
    kept_columns = [f"column {name}: keep" for name in table.keep]
    options = {
        "deletes": table.deletes != Deletes(),
        "version": table.named_versions,
        "base": table.base,
        'order="offset"': table.order == "offset",
    }
    for option in [*kept_columns, *(name for name, value in options.items() if value)]:
        message = f"{option} requires a key, but this is a log table, in which each record is a row"
        yield message, "Remove it, or name the columns that identify a row as the key."


def _version(table: TableParts) -> Iterator[Problem]:
    if isinstance(table.version, Version) and not table.named_versions:
        yield "version names no column", "Name at least one."
    for name, count in Counter(table.named_versions).items():
        if count > 1:
            yield f"version column {name} is listed twice", "List it once."
        yield from _version_part(table, name)


def _version_part(table: TableParts, name: str) -> Iterator[Problem]:
    column = table.by_name.get(name)
    nulls = table.version.nulls if isinstance(table.version, Version) else None
    if column is None:
        hint = spelling_hint(name, table.by_name)
        yield f"unknown column in version: {name}", f"{hint}Declare the column, or correct the name."
    elif isinstance(column, Computed) and nulls not in ("oldest", "newest"):
        message = f"version {column.name} is computed, and nothing says what a record without a result is"
        yield message, _NULLS_OF_COMPUTED
    elif isinstance(column, Computed):
        return
    elif column.keep:
        message = f"version {column.name} is a kept column"
        yield message, "The version must come from the same record as the row. Remove keep."
    elif column.default is not None and table.version_nulls == "reject":
        message = f"version {column.name} has a default, so no record is without a version that could be rejected"
        yield message, 'Remove default, or nulls="reject".'
    elif column.type == "BOOLEAN":
        yield f"version {column.name} is BOOLEAN", "Two values cannot order records. Name a number, a time or a string."
    elif not (column.required or column.default is not None or nulls):
        message = f"version {column.name} may be NULL, and nothing says what a record without a version is"
        yield message, _NULLS.format(column.name)


def _scalar_columns(table: TableParts) -> Iterator[Problem]:
    """Options that require scalar columns, because they identify, order or group rows."""
    options = [("key", table.key), ("cluster_by", table.upkeep.cluster_by), ("version", table.version_columns)]
    options += [(f"rollup {rollup.name}: by", rollup.by) for rollup in table.rollups]
    for option, names in options:
        for column in (table.by_name[name] for name in names if name in table.by_name):
            if column.is_nested or is_binary(column):
                message = f"{option} cannot use column {column.name} of type {column.type}"
                yield message, f"Name another column. {_NESTED_SOURCE if column.is_nested else _BINARY_TEXT}"


def _base(table: TableParts) -> Iterator[Problem]:
    for column in table.record_columns if table.base else ():
        if column.is_nested:
            message = f"column {column.name} is {column.type}, but base files have only scalar values"
            yield message, "Remove base, or the column."
        if max(len(column.field.place.names), len(column.field.place.former)) > 1 or column.field.place.part != VALUE:
            message = f"column {column.name} is not a top-level field of a record, but base files have only those"
            yield message, "Remove base, or have producers send the value as a top-level field."


def _former_fields(table: TableParts) -> Iterator[Problem]:
    """Former names of fields that another column reads: in today's records, they contain other values."""
    pairs = list(zip(table.record_columns, table.fields, strict=True))
    for column, field in pairs:
        former = field.place.former
        other_pairs = [pair for pair in pairs if pair[0] is not column and pair[1].place.part == VALUE]
        other_pairs = [pair for pair in other_pairs if pair[1].place.level == field.place.level]
        for other_column, other_field in other_pairs if former else ():
            paths = taken_paths(other_field.place.names, other_field)
            is_whole = other_column.is_nested or becomes_json(other_column.form)
            if any(path[: len(former)] == (former[: len(path)] if is_whole else former) for path in paths):
                former_name = ".".join(column.field.place.former)
                message = f"column {column.name}: formerly {former_name}, but column {other_column.name} reads it now"
                yield message, "A field must have one meaning. Remove formerly, and have old records sent again."


def _widening_problems(table: TableParts) -> Iterator[Problem]:
    """Columns whose type cannot be widened, because it decides where rows are stored or how they are ordered."""
    fixed = {table.partition_by.name: "rows are partitioned by it"} if table.partition_by else {}
    if table.keep:
        fixed |= dict.fromkeys(table.version_columns, "it is the version that is stored for kept columns")
    key_or_version = dict.fromkeys(table.key, "the key") | dict.fromkeys(table.version_columns, "the version")
    for column in table.columns:
        if column.widened_from is not None and column.name in fixed:
            message = f"column {column.name}: widened_from is not allowed, because {fixed[column.name]}"
            keep_type = f"Remove widened_from. Keep the type {column.widened_from}, or declare another table."
            rewrite = f"Remove widened_from. Then rewrite every row: lakehouse rewrite {table.name}"
            yield message, keep_type if column.name in key_or_version else rewrite
        elif (
            column.name in key_or_version and column.widened_from and has_more_places(column.widened_from, column.type)
        ):
            role = key_or_version[column.name]
            message = f"column {column.name}: widened_from {column.widened_from} adds decimal places to {role}"
            reason = "In a replay, values that were rounded would be different."
            yield message, f"{reason} Add digits before the point, or declare another table without widened_from."


def _lateness(table: TableParts) -> Iterator[Problem]:
    if table.late:
        column = table.by_name.get(table.late.column)
        if column is None or column.type not in ("TIMESTAMP", "DATE"):
            yield "late requires a TIMESTAMP or DATE column", f"Replace {table.late.column} with such a column."
        elif isinstance(column, Computed):
            message = f"late: column {column.name} is computed, but lateness is decided before that"
            yield message, "Name the column that contains the event time."
        elif column.field.place.part == TIME:
            message = f"late: column {column.name} is the broker's own time, by which no record is late"
            yield message, "Name the column that contains the event time."
        if table.late.after < timedelta(0):
            yield "late: after is negative", "Declare how long after its event a record may arrive."


def _reserved_columns(table: TableParts) -> Iterator[Problem]:
    """Declared columns with the name of a column that the project adds."""
    reserved = {table.partition_column.name: "the partition column"} if table.partition_column else {}
    for name in sorted(reserved.keys() & table.by_name.keys()):
        yield f"column {name}: the name is used by {reserved[name]}", _NAME_SOURCE
    reserved_in_key = dict.fromkeys(FEED_COLUMNS, "a column of the change feed")
    for value in table.values:
        reserved_in_key |= {f"{value}_{when}": f"the change feed's column for {value}" for when in ("before", "after")}
    for name in sorted(reserved_in_key.keys() & set(table.key)):
        yield f"key column {name}: the name is used by {reserved_in_key[name]}", _NAME_SOURCE


def _reference(reference: Reference) -> Iterator[Problem]:
    for message, action in chain(
        reference_format_problems(reference),
        columns_problems(reference.columns),
        reference_array_problems(reference),
        header_problems(reference.header, reference.format.encoding),
        key_problems(reference.key, reference.columns),
    ):
        yield f"reference {reference.name}: {message}", action
    for column in reference.columns:
        prefix = f"reference {reference.name}: column {column.name}"
        if column.field.place.part != VALUE:
            yield f"{prefix}: source must be a field", "A line of a file has only fields. Name one of them."
        if column.is_nested:
            yield f"{prefix} cannot have type {column.type}", f"Remove the column. {_NESTED_SOURCE}"
        if is_binary(column):
            yield f"{prefix} cannot have type BINARY", f"Remove the column. {_BINARY_TEXT}"
        for option in (name for name in ("keep", "invalid") if getattr(column, name)):
            yield f"{prefix}: {option} is not allowed", f"A reference is loaded as a whole. Remove {option}."


def _samples(table: TableParts) -> Iterator[Problem]:
    """Whether the sample records can be written as JSON."""
    if isinstance(table.samples, SampleRecords):
        try:
            deque(chain(table.samples.stream(), table.samples.update()), maxlen=0)
        except (TypeError, ValueError) as error:
            yield f"samples cannot be written as JSON: {error}", "Write each value as a record would contain it."


def period_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the periods of a table; one rule for each."""
    retention, promise = table.upkeep.retention, table.promise
    if retention < _MIN_RETENTION:
        message = f"retention is {retention}, but the minimum is one hour"
        yield message, "VACUUM would remove files of a running batch. Declare at least one hour."
    if retention > _MAX_RETENTION:
        yield "retention is more than 100 years", "Delta subtracts it from the current time. Declare less."
    if promise.fresh is not None and promise.fresh < _MIN_FRESH:
        message = f"fresh is {promise.fresh}, but the minimum is 30 seconds"
        yield message, "The sensor looks every five seconds. Declare more."
    if promise.max_lag is not None and promise.max_lag < 0:
        yield f"max_lag is {promise.max_lag}, but the minimum is 0", "Declare the number of offsets that may wait."
    if table.upkeep.deletion_vectors and table.is_log:
        yield "deletion_vectors in a log table, whose rows replace none", "Remove deletion_vectors."
    yield from _maintenance_problems(table.upkeep.every)


def _maintenance_problems(every: timedelta) -> Iterator[Problem]:
    if not _MIN_MAINTENANCE <= every <= _DAY:
        message = f"every of upkeep is {every}, but must be between 5 minutes and one day"
        yield message, "Declare, for example: Upkeep(every=timedelta(hours=1))"
    elif (every < _HOUR and _HOUR % every) or (every >= _HOUR and (_DAY % every or every % _HOUR)):
        message = f"every of upkeep is {every}, which divides neither an hour nor a day into equal parts"
        yield message, "Declare minutes that divide an hour, or hours that divide a day."
    elif every % timedelta(minutes=1):
        yield f"every of upkeep is {every}, but must be whole minutes", "Declare whole minutes."


def partition_problems(table: TableParts) -> Iterator[Problem]:
    """A partition column that is missing, has no fitting type, or is the entire key or a kept column."""
    if table.partition_by:
        column = table.by_name.get(table.partition_by.column)
        types = table.partition_by.types
        if column is None or column.type not in types:
            requirement = f"{type(table.partition_by).__name__} requires a column of type {' or '.join(types)}"
            name = table.partition_by.column
            is_date = column is not None and column.type == "DATE"
            by_value = f"Write Value({name!r}): a DATE is already a day."
            hint = spelling_hint(name, [usable.name for usable in table.columns if usable.type in types])
            yield f"partition_by: {requirement}", by_value if is_date else f"{hint}Replace {name} with such a column."
        elif [table.partition_by.name] == list(table.key):
            message = f"partition_by {column.name} is the entire key"
            yield message, "Each row would be in a folder of its own. Partition by a period, or remove partition_by."
        elif column.name in table.keep:
            message = f"partition_by {column.name} is a kept column"
            yield message, "A row is stored in the partition of its newest record. Remove keep."


def clustering_problems(table: TableParts) -> Iterator[Problem]:
    """Columns that cannot order files: Delta's log must contain the smallest and largest value of each file."""
    cluster_by = table.upkeep.cluster_by
    if cluster_by and table.partition_by:
        message = "partition_by and cluster_by cannot be combined"
        yield message, "Partitions already decide where rows are stored. Remove one of the two."
    if len(cluster_by) > _MAX_CLUSTERED:
        message = f"cluster_by has {len(cluster_by)} columns, but the maximum is {_MAX_CLUSTERED}"
        yield message, "Further columns have no effect. Remove them."
    for name, count in Counter(cluster_by).items():
        column = table.by_name.get(name)
        if column is None:
            hint = spelling_hint(name, table.by_name)
            yield f"unknown column in cluster_by: {name}", f"{hint}Declare the column, or correct the name."
        elif column.type in ("BOOLEAN", "DOUBLE"):
            yield f"cluster_by {name} is {column.type}", "Name a column of exact numbers, times or strings."
        if count > 1:
            yield f"{name} is listed twice in cluster_by", "List it once."
