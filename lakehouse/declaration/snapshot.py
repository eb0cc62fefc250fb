"""A declaration as JSON, which is stored with the table, so that a later declaration can be compared with it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any

from lakehouse.declaration.columns import Column, Computed
from lakehouse.declaration.conditions import Reject
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Check, Version, fingerprint_of
from lakehouse.decoding.nested_types import as_spark_says

Snapshot = Mapping[str, Mapping[str, str]]
"""Per part (``column pieces``, ``check few``, ``reject unpaid``, ``table``): its options by name."""

_TABLE = "table"
_TABLE_OPTIONS = ("format", "partition_by", "order", "late")
_STORAGE_OPTIONS = ("partition_by", "cluster_by", "gaps", "base")
_IGNORED_OPTIONS = ("name", "doc", "widened_from")  # they do not affect the rows that follow
_EFFECTS = {"apply_as_deletes": "deletes.when", "apply_as_truncates": "deletes.truncates"}
"""What the snapshot calls the conditions of deletes, and how a sentence names them."""
_TAKES = "takes"
_COLUMN = "column "
CHECK = "check "
"""Prefix of the parts that decide no row."""
_FORMER = "former "
"""Prefix of a column that is no longer declared, but whose values are still in the table."""


def facts_of(table: TableParts) -> str:
    """The options that decide which rows a table gets, as JSON; not documentation, samples or limits of a batch."""
    table_options = {name: _show_value(getattr(table, name)) for name in _TABLE_OPTIONS}
    version = table.version.column if isinstance(table.version, Version) else table.version
    table_options |= {"version": _show_value(version), "gaps": _show_value(table.topic_options.gaps)}
    table_options |= {"cluster_by": _show_value(table.upkeep.cluster_by)}
    table_options |= {} if table.version_nulls == "oldest" else {"version_nulls": table.version_nulls}
    table_options |= {"base": "True"} if table.base else {}
    framing = {name: "True" for name in ("framed", "documents") if getattr(table.format, name)}
    where = table.conditions if len(table.conditions) > 1 else next(iter(table.conditions), None)
    effects = zip(_EFFECTS, (table.deletes.when, table.deletes.truncates), strict=True)
    deletes = {name: _show_value(value) for name, value in (*effects, ("where", where)) if value}
    rows = {} if table.rows_path is None else {"rows_from": _show_value(table.rows_path)}
    rows |= {"single_object": "True"} if table.single_object else {}
    rows |= {"rows_where": _show_value(table.element_conditions)} if table.element_conditions else {}
    topics = {"topics": _show_value(table.topics)} if table.topics else {}
    topics |= {} if table.has_topics else {"source": _show_source(table.source)}
    snapshot: dict[str, dict[str, str]] = {_TABLE: table_options | framing | deletes | rows | topics}
    snapshot |= {f"{_COLUMN}{column.name}": _column_options(column) for column in table.columns}
    snapshot |= {f"{CHECK}{check.name}": _set_options(check, Check) for check in table.checks}
    snapshot |= {f"reject {rule.reason}": _set_options(rule, Reject) for rule in table.rejects}
    return json.dumps(snapshot, sort_keys=True)


def meaning_of(table: TableParts) -> str:
    """A hash of the options that decide what the values of a record mean; not of how its row is stored."""
    parts = {part: options for part, options in read_snapshot(facts_of(table)).items() if not part.startswith(CHECK)}
    options = {name: value for name, value in parts[_TABLE].items() if name not in _STORAGE_OPTIONS}
    return fingerprint_of(json.dumps({**parts, _TABLE: options}, sort_keys=True))


def with_former(before: str, now: str) -> str:
    """The snapshot ``now``, with the columns that were declared before it and no longer are.

    ``before`` is the snapshot of the previous declaration, with such columns. Unchanged if nothing is declared now.
    """
    old, new = read_snapshot(before), read_snapshot(now)
    old_parts = {part.removeprefix(_FORMER): options for part, options in old.items()}
    former = {
        _FORMER + part: options for part, options in old_parts.items() if part.startswith(_COLUMN) and part not in new
    }
    return json.dumps({**new, **former}, sort_keys=True) if new else now


def find_redeclared_columns(before: str, now: str) -> Iterator[tuple[str, str, bool]]:
    """Columns that are declared again: the name, the former source or SQL, and whether it is still the same."""
    old, new = read_snapshot(before), read_snapshot(now)
    for part in sorted(new):
        if (former := old.get(_FORMER + part)) is not None and part not in old:
            former_source = former.get("sql") or _source_of(former, _TAKES)
            yield part.removeprefix(_COLUMN), former_source, _has_same_source(former, new[part])


def differences(before: str, now: str) -> Iterator[tuple[str, str]]:
    """What a declaration changes compared with the previous one: the part, and a sentence about it."""
    old, new = (
        {part: options for part, options in read_snapshot(text).items() if not part.startswith(_FORMER)}
        for text in (before, now)
    )
    redeclared = {
        f"{_COLUMN}{name}": (source, is_same) for name, source, is_same in find_redeclared_columns(before, now)
    }
    for part in sorted({*old, *new}):
        if part in redeclared:
            source, is_same = redeclared[part]
            change = "is declared again" if is_same else f"is declared again, and took its values from {source} before"
            yield part, f"{part} {change}: rows that no record has replaced since then keep their old values"
        elif part not in old:
            yield part, f"{part} is new"
        elif part not in new:
            effect = ": its values stay until newer records replace their rows" if part.startswith(_COLUMN) else ""
            yield part, f"{part} is no longer declared{effect}"
        else:
            for option in sorted({*old[part], *new[part]}):
                old_value, new_value = old[part].get(option, "not set"), new[part].get(option, "not set")
                if old_value != new_value:
                    yield part, f"{part}: {_EFFECTS.get(option, option)} was {old_value}, is {new_value}"


def find_renamed_columns(before: str, now: str) -> Iterator[tuple[str, str]]:
    """Removed columns, each with a new column whose source, or former source, is exactly that of the removed one."""
    old, new = (
        {part.removeprefix(_COLUMN): items for part, items in read_snapshot(text).items() if part.startswith(_COLUMN)}
        for text in (before, now)
    )
    for removed_name in sorted({*old} - {*new}):
        for new_name in sorted({*new} - {*old}):
            if _has_same_source(old[removed_name], new[new_name]):
                yield removed_name, new_name


def _has_same_source(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether the source or the former source of the new column is exactly the source of the old one."""
    old_source, has_same_sql = _source_of(old, _TAKES), old.get("sql") == new.get("sql")
    new_source, former_source = (_source_of(new, option) for option in (_TAKES, "formerly"))
    return has_same_sql and (old_source == new_source or bool(old_source and old_source == former_source))


def _source_of(options: Mapping[str, str], option: str) -> str:
    """The value of the option, equal for a name and for a path of that name alone; empty if the option is not set."""
    source = options.get(option, "")
    return source[1:-1] if source.startswith("[") and "," not in source else source


def read_snapshot(text: str) -> Snapshot:
    """The snapshot that is stored with a table; empty if the text does not have this form."""
    try:
        content = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(content, dict) or not all(isinstance(options, dict) for options in content.values()):
        return {}
    return {
        str(part): {str(option): str(value) for option, value in options.items()} for part, options in content.items()
    }


def _column_options(column: Column | Computed) -> dict[str, str]:
    options = _set_options(column, type(column)) | {"type": as_spark_says(column.type)}
    if isinstance(column, Computed):
        return options
    options.pop("source", None)
    options.pop("written", None)
    times = {"pattern": column.time.pattern, "epoch": column.time.epoch, "written": column.form}
    options |= {name: _show_value(value) for name, value in times.items() if value is not None}
    zone = column.field.form.zone  # the same for a name and a Zone
    options |= {"zone": repr(zone)} if zone else {}
    return options | {_TAKES: _show_value(column.source or column.name)}


def _set_options(part: Any, kind: type[Any]) -> dict[str, str]:
    """The options of a part that differ from their defaults."""
    options = [field for field in fields(kind) if field.name not in _IGNORED_OPTIONS]
    return {
        field.name: _show_value(value) for field in options if (value := getattr(part, field.name)) != field.default
    }


def _show_source(source: Any) -> str:
    """A source with its options; a newer option that is not set is left out, as if it did not exist."""
    unset = (f", {name}=0" for name in ("title_lines", "total_lines"))
    return reduce(lambda text, part: text.replace(part, ""), unset, _show_value(source))


def _show_value(value: object) -> str:
    """A value as text, the same for a list and a tuple."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_show_value(item) for item in value)}]"
    return repr(value)
