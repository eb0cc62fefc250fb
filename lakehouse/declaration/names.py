"""Names in a declaration: which ones are reserved, which one the user meant, and what former ones are now."""

import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from types import ModuleType
from typing import Any, TypeVar

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import Format
from lakehouse.errors import DeclarationError

MAX_LENGTH = 200  # a folder, a lock and a partition with such a name still fit into a file name
SHAPE = f"a name has at most {MAX_LENGTH} lower-case letters, digits and _, and starts with a letter"
_NAME = re.compile(r"[a-z][a-z0-9_]*")

RECORD = "_record"
"""The column of a merged table that identifies the record of each row."""

FEED_COLUMNS = ("change", "source_table_id", "source_version", "since_version", "committed_at", "number", "reconciled")
"""Columns of the change feed, next to those of the key: no key column has one of these names.

All other columns that the project adds, and those of intermediate steps of a batch, start with an underscore.
"""

_DAGSTER = "arg_dict bool conf config context dict float input input_arg_dict int meta output output_arg_dict str type"
RESERVED_TABLES = {*_DAGSTER.split(), *keyword.kwlist}
"""Names that Dagster accepts for no asset."""

CHECK_NAMES = {
    "batch_can_be_planned",
    "batches_accounted",
    "keys_unique",
    "lag_within_limit",
    "log_unchanged",
    "nothing_held_back",
    "producer_time",
    "ranges_contiguous",
    "records_accounted",
    "records_fresh",
    "registered",
    "rejected_share",
    "rows_accounted",
    "totals_match",
    "versions_decide",
}
"""The names of the checks that a merged table has or can have: a check that somebody declares has another one."""
_MIN_SIMILARITY = 0.75  # 1 is the same name
_MISSING_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
ARRAY_NAME = "Field {!r} is left out: its name looks like a place in an array. UnmappedFields() has its value."
"""Why no column is proposed for a field whose name has a step into an array."""
_STEP = re.compile(r"(?P<array>.*?)\[(?P<place>[0-9*]*)\](?=\.|$)", re.DOTALL)

DUCKDB_PREFIX = "duckdb_"
"""The prefix of DuckDB's lists of tables and columns: a table of that name would break SHOW TABLES for all tables."""


def is_name(text: str) -> bool:
    """Whether a table or a column may have this name, if the name is free."""
    return bool(_NAME.fullmatch(text)) and len(text) <= MAX_LENGTH


def name_problems(name: str, subject: str = "the name") -> Iterator[Problem]:
    """What is wrong with the name of a table; ``subject`` is how the message calls it."""
    if not is_name(name):
        yield f"{subject} is not allowed: {SHAPE}", "Choose another name."
    if name in RESERVED_TABLES:
        yield f"{subject} is reserved by Dagster", "Choose another name."
    if name.startswith(DUCKDB_PREFIX):
        message = f"{subject} is reserved: DuckDB lists tables with {DUCKDB_PREFIX}* functions of its own"
        yield message, "Choose another name."


def column_name(source: str) -> str | None:
    """The name of a column for a field; ``None`` if the name of the field cannot become one."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", source)
    name = source if is_name(source) else re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    if name in FEED_COLUMNS or name.endswith(("_before", "_after")):  # it may be in the key, which the feed contains
        name = f"{name}_"
    return name if is_name(name) else None


def misspelt(error: BaseException, package: ModuleType) -> tuple[str, str] | None:
    """Return what is wrong and what to do, if the error is about a name that a declaration cannot use.

    ``package`` is the module that exports the classes of a declaration in ``__all__``. ``None`` for any other error.
    """
    text = str(error)
    unknown_match = _UNKNOWN_ARGUMENT.match(text)
    if isinstance(error, TypeError) and unknown_match and unknown_match[1] in package.__all__:
        parameters = signature(getattr(package, unknown_match[1])).parameters
        message = f"{unknown_match[1]} has no parameter {unknown_match[2]!r}"
        return message, _suggest(unknown_match[2], parameters, "It takes")
    missing_match = _MISSING_ARGUMENT.match(text)
    if isinstance(error, TypeError) and missing_match and missing_match[1] in package.__all__:
        names = missing_match[2].replace("'", "")
        return f"{missing_match[1]} is missing {names}", f"Add {re.split(',| and ', names)[0]}=... to it."
    import_match = re.match(rf"cannot import name '(\w+)' from '{package.__name__}'", text)
    if isinstance(error, ImportError) and import_match:
        return f"{package.__name__} has no {import_match[1]!r}", _suggest(import_match[1], package.__all__, "It has")
    name = error.name if isinstance(error, NameError) else None
    closest = _closest(name, package.__all__) if name and name not in sys.stdlib_module_names else None
    if closest:
        return f"{type(error).__name__}: {text}", f"Write {closest}, and import it from {package.__name__}."
    return None


def spelling_hint(name: str, valid_names: Iterable[str]) -> str:
    """Return the question whether a similar valid name is meant, with a space at its end; empty if none is similar."""
    closest = _closest(name, valid_names)
    return f"Did you mean {closest}? " if closest else ""


def _suggest(name: str, valid_names: Iterable[str], intro: str) -> str:
    closest = _closest(name, valid_names)
    return f"Write {closest}." if closest else f"{intro} {', '.join(valid_names)}."


def _closest(name: str, valid_names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(valid_names), n=1, cutoff=_MIN_SIMILARITY)), None)


def array_step(names: Sequence[str]) -> re.Match[str] | None:
    """The first step into an array of a path, with the name of the ``array`` and the ``place`` in it."""
    return next((match for name in names if (match := _STEP.match(name))), None)


def json_names(names: Sequence[str], form: Format) -> Sequence[str]:
    """The names of a path that are fields of JSON: the name of a field of a text format may be any."""
    return names[1:] if form.is_text else names


FORMER_NAMES = {
    "AvroSamples": "lakehouse.declaration.samples",
    "BaseSamples": "lakehouse.declaration.samples",
    "Choice": "lakehouse.declaration.sources",
    "Counter": "lakehouse.declaration.sources",
    "Hash": "lakehouse.declaration.sources",
}
"""The modules of names that the package had at its top."""

_OF_TOPICS = ("start", "gaps", "order", "partitions", "replay_from", "may_forget")
FORMER_OPTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "StreamTable": {
        "topics": ("source=Topics", ""),
        **{name: ("source=Topic", name) for name in _OF_TOPICS},
        "apply_as_deletes": ("deletes=Deletes", "when"),
        "apply_as_truncates": ("deletes=Deletes", "truncates"),
        "purge_deletes": ("deletes=Deletes", "purge"),
        "single_object": ("rows_from=Explode", "single_object"),
        "fresh": ("promise=Promise", "fresh"),
        "max_lag": ("promise=Promise", "max_lag"),
        "retention": ("upkeep=Upkeep", "retention"),
        "maintain_every": ("upkeep=Upkeep", "every"),
        "cluster_by": ("upkeep=Upkeep", "cluster_by"),
    },
    "Column": {
        "pattern": ("written=Time", "pattern"),
        "epoch": ("written=Time", "epoch"),
        "zone": ("written=Time", "zone"),
        "sql": ("Computed", "sql"),
    },
}
"""The former options of each class: what has each of them now, and the name that it has there."""
_MAX_SHOWN = 60  # characters of a value
T = TypeVar("T")


def refuse_former(declared_class: type[T]) -> type[T]:
    """Let a class refuse its former options with an error that says what to write."""
    former_options, init = FORMER_OPTIONS[declared_class.__name__], declared_class.__init__
    positions = [field.name for field in fields(declared_class)]  # type: ignore[arg-type]

    @wraps(init)
    def checked_init(self: T, *arguments: Any, **options: Any) -> None:
        names = [name for name in options if name in former_options]
        if names:
            values = {**dict(zip(positions, arguments, strict=False)), **options}
            kind = declared_class.__name__
            message = f"{', '.join(names)} {'is not an option' if len(names) == 1 else 'are not options'} of {kind}"
            action = " and ".join(_new_lines({name: former_options[name] for name in names}, values))
            subject = f"{kind.removeprefix('Stream')} {values.get('name')!r}"
            raise DeclarationError(f"{subject}: {message}", action=f"{action[0].upper()}{action[1:]}.")
        init(self, *arguments, **options)

    setattr(declared_class, "__init__", checked_init)  # noqa: B010 - a type checker keeps the arguments of the dataclass
    return declared_class


def _new_lines(former_options: Mapping[str, tuple[str, str]], values: Mapping[str, Any]) -> list[str]:
    """What to write in place of these options, with the values that are given."""
    lines: dict[str, list[str]] = {}
    removed_names: list[str] = []
    topics, source = values.get("topics"), values.get("source")
    origin = topics or source
    kind = "Topics" if isinstance(origin, list | tuple) else type(origin).__name__ if origin else "Topic"
    for option, (former_group, argument) in former_options.items():
        is_of_source = former_group.startswith("source=")
        if is_of_source and not _has_option(kind, argument):
            removed_names.append(option)
            continue
        group = f"source={kind}" if is_of_source else former_group
        first = {"source": values.get("topics") or values.get("topic") or ...}.get(group.partition("=")[0])
        first = values.get("rows_from", ...) if group == "rows_from=Explode" else first
        parts = lines.setdefault(group, [] if first is None else [_show(first)])
        parts += [f"{argument}={_show(values[option])}"] if argument else []
    if "written=Time" in lines and values.get("written") is not None:
        lines["written=Time"].append(f"written={_show(values['written'])}")
    if "Computed" in lines:
        return [f"write Computed({values['name']!r}, {values.get('type')!r}, {', '.join(lines['Computed'])}, doc=...)"]
    new_lines = [f"write {group}({', '.join(parts)})" for group, parts in lines.items()]
    return [*new_lines, *([f"remove {', '.join(removed_names)}"] if removed_names else [])]


def _has_option(kind: str, argument: str) -> bool:
    """Whether a kind of source has an argument that was an option of the table."""
    return (
        argument == "order" if kind in ("Files", "TableRows", "Generated") else kind == "Topic" or argument != "order"
    )


def _show(value: object) -> str:
    text = repr(getattr(value, "pattern", value))
    return "..." if value is ... or len(text) > _MAX_SHOWN else text
