"""Which names a declaration may use, and which ones are reserved: those of columns that the project adds itself."""

import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from inspect import signature
from types import ModuleType

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import Format

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

NO_CHECK = {"records_accounted", "rows_accounted", "batch_can_be_planned", "batches_accounted", "keys_unique"}
_MIN_SIMILARITY = 0.75  # 1 is the same name
_MISSING_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
ARRAY_NAME = "Field {!r} is left out: its name looks like a place in an array. UnmappedFields() has its value."
"""Why no column is proposed for a field whose name has a step into an array."""
_STEP = re.compile(r"(?P<array>.*?)\[(?P<place>[0-9*]*)\](?=\.|$)", re.DOTALL)


NO_CHECK |= {
    "producer_time",
    "ranges_contiguous",
    "rejected_share",
    "versions_decide",
    "totals_match",
    "records_fresh",
    "lag_within_limit",
    "nothing_held_back",
}
"""The names of the checks that a merged table has or can have."""

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
        return _unknown_parameter(
            unknown_match[1], unknown_match[2], list(signature(getattr(package, unknown_match[1])).parameters)
        )
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


def _unknown_parameter(class_name: str, parameter: str, parameters: list[str]) -> tuple[str, str]:
    return f"{class_name} has no parameter {parameter!r}", _suggest(parameter, parameters, "It takes")


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
