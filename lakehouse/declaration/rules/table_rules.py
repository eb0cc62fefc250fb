"""What may not be said of a table. Each rule yields what is wrong, and what to do; the first one found is raised."""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import chain

from lakehouse.declaration.names import IN_CATALOG, IN_FEED, NO_TABLE, SHAPE, is_name
from lakehouse.declaration.rules.column_rules import columns_problems
from lakehouse.declaration.rules.expression_rules import check_problems, computed_problems, rollup_problems
from lakehouse.declaration.rules.field_types import field_problems
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column, Reference, SampleRecords
from lakehouse.declaration.widening import has_more_places
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import format_problems
from lakehouse.decoding.record_parts import TIME, VALUE
from lakehouse.decoding.unmapped_fields import taken_paths

TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_OF_TOPIC = "Up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone."
_OF_OWNER = "Write team:NAME, or an e-mail address, of which 2 to 7 letters follow the last dot."
_OWNER = re.compile(r"team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
_SHORTEST = timedelta(hours=1)  # a batch that runs takes less: VACUUM cannot tell its files from waste
_LONGEST = timedelta(days=36_525)
_MOST_CLUSTERED = 4
_MOST_PARTITIONS = 10_000  # Kafka refuses to make more in one request


def table_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with a declaration; a rule may rely on those before it."""
    yield from field_problems(table)
    yield from chain(
        _table_names(table),
        _choices(table),
        format_problems(table.format),
        _retention(table),
        columns_problems(table.columns, typed_by=table.format.name if table.format.typed else ""),
        computed_problems(table),
        _plain(table),
        key_problems(table.key, table.columns) if table.key else _log(table),
        _order(table),
        _partition(table),
        _clustered(table),
        _widened(table),
        _renamed(table),
        _lateness(table),
        _base(table),
        _columns_of_ours(table),
        check_problems(table),
        *(rollup_problems(rollup, table) for rollup in table.rollups),
        *(_reference(reference) for reference in table.references),
        _samples(table),
    )


def _table_names(table: TableParts) -> Iterator[Problem]:
    for name, times in Counter(table.names).items():
        if not is_name(name):
            yield f"table {name!r}: {SHAPE}", "Choose another name."
        if name in NO_TABLE:
            yield f"no table can be named {name}: Dagster keeps that word", "Choose another name."
        if name.startswith(IN_CATALOG):
            yield f"no table can be named {name}: DuckDB asks its own {IN_CATALOG}* for tables", "Choose another name."
        if times > 1:
            fact = f"two parts of the declaration are named {name}"
            yield fact, "Choose another name for one: each is a folder of a table, or a name in Dagster."


def _choices(table: TableParts) -> Iterator[Problem]:
    if not TOPIC.fullmatch(table.topic):
        yield f"topic {table.topic!r} is no name that Kafka takes", _OF_TOPIC
    if not _OWNER.fullmatch(table.owner):
        yield f"owner {table.owner!r} is neither a team nor an address", _OF_OWNER
    for name in ("partitions", "max_records"):
        if getattr(table, name) < 1:
            yield f"{name} is at least 1", f"Correct {getattr(table, name)}: one is the least."
    if table.partitions > _MOST_PARTITIONS:
        yield f"partitions is at most {_MOST_PARTITIONS}", "Kafka makes no more of one topic at once: declare fewer."


def _retention(table: TableParts) -> Iterator[Problem]:
    if table.retention < _SHORTEST:
        fact = f"retention is less than an hour: {table.retention}"
        yield fact, "VACUUM would remove files of a batch that runs: declare at least an hour."
    if table.retention > _LONGEST:
        yield "retention is more than a hundred years", "Declare less: Delta counts back from now."


def key_problems(key: Sequence[str], columns: Sequence[Column]) -> Iterator[Problem]:
    """What is wrong with the key of a table of these columns."""
    if not key:
        yield "a table needs a key", "Name the columns that tell one row from another."
    required = {column.name for column in columns if column.required}
    for name, times in Counter(key).items():
        if name not in required:
            yield (
                f"key column {name} must be declared and required",
                "Declare it with required=True, and neither default nor keep.",
            )
        if times > 1:
            yield f"key column {name} stands twice", "Name it once."


def _log(table: TableParts) -> Iterator[Problem]:
    """What says something of rows that replace others: in a log table none does."""
    if not table.columns:
        yield "a table needs columns", "Name what its rows hold."
    kept = [f"column {column.name}: keep" for column in table.columns if column.keep]
    asked = {"version": table.version, "base": table.base, 'order="offset"': table.order == "offset"}
    for said in [*kept, *(name for name, there in asked.items() if there)]:
        fact = f"{said} is for tables with a key, and this is a log table: each record is a row"
        yield fact, "Leave it out, or name the columns that tell one row from another as the key."


def _order(table: TableParts) -> Iterator[Problem]:
    if table.version is None:
        return
    column = table.by_name.get(table.version)
    if column is None:
        yield f"version is no column: {table.version}", "Declare the column."
    elif column.sql is not None:
        fact = f"version {column.name} is computed: where it cannot be, the record would be the oldest of all"
        yield fact, "Name a column that records tell."
    elif column.keep:
        yield f"version {column.name} is kept", "It has to come from the same record as the row: leave keep out."
    elif column.type == "BOOLEAN":
        yield f"version {column.name} is BOOLEAN", "Two values order nothing: name a number, a time or a text."


def _plain(table: TableParts) -> Iterator[Problem]:
    """Where values that hold others can be nothing: rows are told apart, ordered and grouped by plain ones."""
    asked = [("key", table.key), ("cluster_by", table.cluster_by), ("version", [table.version or ""])]
    asked += [(f"rollup {rollup.name}: by", rollup.by) for rollup in table.rollups]
    for what, names in asked:
        for column in (table.by_name[name] for name in names if name in table.by_name):
            if column.is_nested:
                fact = f"{what} {column.name} is {column.type}"
                yield fact, "Name another column; a field within an object can be a column, by its path as source."


def _partition(table: TableParts) -> Iterator[Problem]:
    if table.partition_by:
        column = table.by_name.get(table.partition_by.column)
        types = table.partition_by.types
        if column is None or column.type not in types:
            kind = f"{type(table.partition_by).__name__} needs a column of {' or '.join(types)}"
            name = table.partition_by.column
            is_date = column is not None and column.type == "DATE"
            by_value = f"Write Value({name!r}): a DATE is a day already."
            yield f"partition_by: {kind}", by_value if is_date else f"{name} is none: name one."
        elif [table.partition_by.name] == list(table.key):
            fact = f"partition_by {column.name} is the whole key"
            yield fact, "Each row would lie in a folder of its own: part by a period, or not at all."
        elif column.keep:
            fact = f"partition_by {column.name} is kept"
            yield fact, "A row lies in the partition of its newest record: leave keep out."


def _base(table: TableParts) -> Iterator[Problem]:
    for column in table.columns if table.base else ():
        if column.is_nested:
            fact = f"column {column.name} is {column.type}, and base files have plain values"
            yield fact, "Leave base out, or the column."
        if max(len(column.field.names), len(column.field.former)) > 1 or column.field.part != VALUE:
            fact = f"column {column.name} is no field of its own in a record, and base files have nothing else"
            yield fact, "Leave base out, or have the records tell it by one name."


def _renamed(table: TableParts) -> Iterator[Problem]:
    """A name that a field had, and another column takes: of today's records it would be another value."""
    for column in table.told:
        former = column.field.former
        others = [each for each in table.told if each is not column and each.field.part == VALUE]
        for other in others if former else ():
            held = taken_paths(other.field.names, other.field)
            if any(path[: len(former)] == (former[: len(path)] if other.is_nested else former) for path in held):
                fact = f"column {column.name}: formerly {'.'.join(former)}, and {other.name} takes it now"
                yield fact, "A field has one meaning: leave formerly out, and have old records sent again."


def _clustered(table: TableParts) -> Iterator[Problem]:
    """What files cannot be ordered by: the log has to tell the least and the greatest value of each file."""
    if table.cluster_by and table.partition_by:
        yield "partition_by or cluster_by, not both", "Rows lie by their partition already: leave one out."
    if len(table.cluster_by) > _MOST_CLUSTERED:
        yield f"cluster_by has {len(table.cluster_by)} columns", f"More than {_MOST_CLUSTERED} order nothing."
    for name, times in Counter(table.cluster_by).items():
        column = table.by_name.get(name)
        if column is None:
            yield f"cluster_by is no column: {name}", "Declare the column."
        elif column.type in ("BOOLEAN", "DOUBLE"):
            yield f"cluster_by {name} is {column.type}", "Name a number that is exact, a time or a text."
        if times > 1:
            yield f"cluster_by {name} stands twice", "Name it once."


def _widened(table: TableParts) -> Iterator[Problem]:
    """What the type of a column decides beyond its values: where rows lie, and what is stored of their order."""
    fixed = {table.partition_by.name: "rows are partitioned by it"} if table.partition_by else {}
    if table.version and table.keep:
        fixed[table.version] = "it is the version, which kept columns came with"
    rounded = dict.fromkeys(table.key, "of a key, values that were rounded would be others in a replay")
    if table.version:
        rounded[table.version] = "of a version, values that were rounded would be others in a replay"
    for column in table.columns:
        if column.widened_from is not None and column.name in fixed:
            fact = f"column {column.name}: widened_from, and {fixed[column.name]}"
            stays = f"Leave widened_from out: here it stays {column.widened_from}, or declare another table."
            written = f"Leave widened_from out; then have every row written: lakehouse rewrite {table.name}"
            yield fact, stays if column.name in (*table.key, table.version) else written
        elif column.name in rounded and column.widened_from and has_more_places(column.widened_from, column.type):
            fact = (
                f"column {column.name}: widened_from {column.widened_from} to more places, and {rounded[column.name]}"
            )
            yield fact, "Widen it by digits before its places, or leave widened_from out, in a table of another name."


def _lateness(table: TableParts) -> Iterator[Problem]:
    if table.late:
        column = table.by_name.get(table.late.column)
        if column is None or column.type not in ("TIMESTAMP", "DATE"):
            yield "late needs a TIMESTAMP or DATE column", f"{table.late.column} is none: name one."
        elif column.sql is not None:
            fact = f"late: {column.name} is computed, and a record is judged before that"
            yield fact, "Name the column that tells when it happened."
        elif column.field.part == TIME:
            fact = f"late: {column.name} is the broker's time itself, and no record is late by it"
            yield fact, "Name the column that tells when it happened."
        if table.late.after < timedelta(0):
            yield "late: after is less than nothing", "Declare how long after its event a record may come."


def _columns_of_ours(table: TableParts) -> Iterator[Problem]:
    """Names that follow from other declared ones."""
    ours = {table.partition_column.name: "the partition column"} if table.partition_column else {}
    for name in sorted(ours.keys() & table.by_name.keys()):
        yield f"column {name}: the name is taken by {ours[name]}", "Choose another, and name the field in its source."
    of_keys = dict.fromkeys(IN_FEED, "a column of the change feed")
    for value in table.values:
        of_keys |= {f"{value}_{when}": f"the change feed's column for {value}" for when in ("before", "after")}
    for name in sorted(of_keys.keys() & set(table.key)):
        fact = f"key column {name}: the name is taken in the key, by {of_keys[name]}"
        yield fact, "Choose another, and name the field in its source."


def _reference(reference: Reference) -> Iterator[Problem]:
    for fact, action in chain(columns_problems(reference.columns), key_problems(reference.key, reference.columns)):
        yield f"reference {reference.name}: {fact}", action
    for column in reference.columns:
        if column.field.part != VALUE:
            fact = f"reference {reference.name}: column {column.name}: its source is for records"
            yield fact, "A line of a file has fields and nothing beside them: name one."
        if column.sql is not None:
            fact = f"reference {reference.name}: column {column.name}: it is computed"
            yield fact, "A reference holds what its file says: leave sql out."
        if column.is_nested:
            fact = f"reference {reference.name}: column {column.name} is {column.type}"
            yield (
                fact,
                "Leave it out; a field within an object can be a column, by its path as source.",
            )
        if column.keep:
            fact = f"reference {reference.name}: column {column.name}: keep is for records"
            yield fact, "A reference is read whole: leave keep out."


def _samples(table: TableParts) -> Iterator[Problem]:
    """Sample records that are written here have to be records."""
    if isinstance(table.samples, SampleRecords):
        try:
            deque(chain(table.samples.stream(), table.samples.update()), maxlen=0)
        except (TypeError, ValueError) as error:
            yield f"its samples are no JSON: {error}", "Write each value as it would stand in a record."
