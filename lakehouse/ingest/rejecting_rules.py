"""The rules by which a table rejects records: what they judge by, and the records that they reject."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Reference, Reject, StreamTable
from lakehouse.declaration.sql import named_columns, quoted
from lakehouse.decoding import staged
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.rows import KnownValues
from lakehouse.errors import BaseFileError, LakehouseError
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_rows
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings

_RULE = "_rule"
_MAX_VALUE, _MAX_DETAIL, _MAX_CONDITION = 80, 500, 200  # characters
_UNPRINTABLE = r"[\p{C}\p{Zl}\p{Zp}]"
_NO_ROWS = ", ".join(map(quoted, staged.NO_ROWS))


def named_references(table: StreamTable) -> list[Reference]:
    """Return the references that rules of a table name, each once."""
    names = {rule.unknown for rule in table.rejects}
    return [reference for reference in table.references if reference.name in names]


def read_known(settings: Settings, table: StreamTable) -> tuple[KnownValues, ...]:
    """Return the values that are known to each rule about a reference, in the order of the rules, without a JVM.

    Raises ``LakehouseError`` if a reference was never loaded.
    """
    return tuple(_known_to(rule, settings, table) for rule in table.rejects if rule.unknown is not None)


def _known_to(rule: Reject, settings: Settings, table: StreamTable) -> KnownValues:
    name = rule.unknown or ""
    ledger_of(settings, name)
    uri = settings.table_uri(name)
    with log_failures(uri):
        reference_table = open_rows(uri)
        if reference_table is None:
            raise LakehouseError(
                f"The reference {name} was never loaded, and the rule {rule.reason} needs it",
                where=uri,
                action=f"Load it first: lakehouse merge {table.name}",
            )
        rows = pa.table(reference_table.to_pyarrow_table(columns=[*rule.by]))
    types = {column: arrow_type(table.by_name[column].type) for column in rule.by}
    return KnownValues(tuple(rule.by), tuple(rows[n].combine_chunks().cast(type_) for n, type_ in types.items()))


def unknown_flags(table: StreamTable) -> list[str]:
    """Return the names of the columns that say whether values are unknown, one for each rule about a reference."""
    return [f"{staged.UNKNOWN}{number}" for number, rule in enumerate(table.rejects) if rule.unknown is not None]


def is_rejected_sql(table: StreamTable, row: str) -> str:
    """Return the condition that a decoded row is rejected, by a rule or before; ``row`` is the name of its struct."""
    reason = f"{row}.{staged.REASON}"
    is_judged = _is_judged(table, f"{row}.")
    by_rule = " OR ".join(f"coalesce({condition}, false)" for condition in table.reject_conditions(row))
    return f"(({reason} IS NOT NULL AND {reason} NOT IN ({_NO_ROWS})) OR ({is_judged} AND ({by_rule})))"


def _is_judged(table: StreamTable, prefix: str = "") -> str:
    """Return the condition that a decoded record is a row, or would be one if it was not late."""
    is_row = [f"NOT {prefix}{flag}" for flag in table.rules().flags]
    return " AND ".join([f"({prefix}{staged.REASON} IS NULL OR {prefix}{staged.REASON} = 'late')", *is_row])


def reject_by_rules(rows: DataFrame, table: StreamTable) -> DataFrame:
    """Reject decoded rows by the rules of the table: set their reason and detail, and drop their values.

    The first rule that applies gives the reason, also to a late record. Without rules, returns the same rows.
    """
    if not table.rejects:
        return rows
    rows = rows.withColumn(_RULE, F.expr(f"CASE WHEN {_is_judged(table)} THEN {_rule_sql(table)} END"))
    reasons = {number: quoted(rule.reason) for number, rule in enumerate(table.rejects)}
    details = {number: _detail_sql(rule, table) for number, rule in enumerate(table.rejects)}
    is_row = f"{_RULE} IS NULL AND {staged.REASON} IS NULL"
    values = {column.name: f"IF({is_row}, `{column.name}`, NULL)" for column in table.stored_columns}
    judged = {staged.REASON: _by_rule(reasons, staged.REASON), staged.DETAIL: _by_rule(details, staged.DETAIL)}
    rows = rows.withColumns({name: F.expr(sql) for name, sql in (judged | values).items()})
    return rows.drop(_RULE, *unknown_flags(table))


def _rule_sql(table: StreamTable) -> str:
    """Return the number of the first rule that applies to a row, NULL if none does."""
    cases = (f"WHEN {condition} THEN {number}" for number, condition in enumerate(table.reject_conditions()))
    return f"CASE {' '.join(cases)} END"


def _by_rule(values: dict[int, str], otherwise: str) -> str:
    return f"CASE {_RULE} {' '.join(f'WHEN {n} THEN {sql}' for n, sql in values.items())} ELSE {otherwise} END"


def _detail_sql(rule: Reject, table: StreamTable) -> str:
    """Return what a rule says about a row: the rule, and the values of its columns."""
    condition = " ".join((rule.when or "").split())
    condition = condition if len(condition) <= _MAX_CONDITION else f"{condition[:_MAX_CONDITION]} ..."
    fact = f"it meets {condition}" if rule.when is not None else f"unknown in {rule.unknown}"
    names = named_columns(rule.when) if rule.when is not None else rule.by
    texts = [f"concat({quoted(f'{name!r} is ')}, {_shown_value(name)})" for name in table.by_name if name in names]
    values = f"concat_ws(', ', {', '.join(texts) or quoted('')})"
    return f"substring(concat({quoted(f'{fact}: ')}, {values}), 1, {_MAX_DETAIL})"


def _shown_value(name: str) -> str:
    text = f"substring(CAST(`{name}` AS STRING), 1, {_MAX_VALUE})"
    return f"coalesce(regexp_replace({text}, {quoted(_UNPRINTABLE)}, '?'), 'NULL')"


def require_accepted(rows: DataFrame, table: StreamTable, known_values: Sequence[KnownValues]) -> None:
    """Raise ``BaseFileError`` if a rule of the table rejects a base row (``_file``, ``_place``, and its columns)."""
    if not table.rejects:
        return
    for name, values in zip(unknown_flags(table), known_values, strict=True):
        rows = _mark_unknown(rows, values, name)
    details = {number: _detail_sql(rule, table) for number, rule in enumerate(table.rejects)}
    rows = rows.withColumn(_RULE, F.expr(_rule_sql(table))).where(f"{_RULE} IS NOT NULL")
    rejected = rows.selectExpr("_file", "_place", _RULE, f"{_by_rule(details, 'NULL')} AS _detail")
    for row in rejected.orderBy("_file", "_place").limit(1).collect():
        raise BaseFileError(
            f"Row {row['_place']}: {table.rejects[row[_RULE]].reason}, {row['_detail']}",
            where=row["_file"],
            action="Nothing was loaded. Correct the file or remove it.",
        )


def _mark_unknown(rows: DataFrame, known_values: KnownValues, flag: str) -> DataFrame:
    known_rows = pa.table(list(known_values.arrays), [*known_values.names])
    marked = rows.sparkSession.createDataFrame(known_rows).distinct().withColumn(flag, F.lit(False))
    has_values = " AND ".join(f"`{name}` IS NOT NULL" for name in known_values.names)
    rows = rows.join(marked, [*known_values.names], "left")
    return rows.withColumn(flag, F.expr(f"{has_values} AND {flag} IS NULL"))
