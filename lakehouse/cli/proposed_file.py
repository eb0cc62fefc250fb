"""The file that ``new-table`` writes: a proposed declaration."""

from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import Column, FieldIs, HeaderIs
    from lakehouse.declaration.inference.proposal import Proposal

_WIDTH = 120


def declaration_text(table: str, topic: str, proposal: "Proposal") -> str:
    """The text of a file with the proposed declaration, formatted as a person would write it."""
    format_text = proposal.form.declared_as
    uses = {"Column": True, "Month": proposal.month_of, "StreamTable": True, format_text.partition("(")[0]: format_text}
    uses |= {"Avro": "Avro()" in format_text, "FieldIs": bool(proposal.deletes or proposal.truncates)}
    uses |= {type(proposal.where).__name__: True} if proposal.where else {}
    imported_names = sorted(name for name, is_used in uses.items() if is_used)
    doc = f"Records of topic {topic}: one row for each {', '.join(proposal.key) or 'record'}."
    parts = [f"name={_quoted(table)}", f"topic={_quoted(topic)}", f"doc={_quoted(doc)}", "file=__file__"]
    parts += [f"format={format_text}"] if format_text else []
    parts += [f"where={_condition(proposal.where)}"] if proposal.where else []
    columns = "".join(f"        {_column(column)},\n" for column in proposal.columns)
    parts += [f"columns=[\n{columns}    ]", f"key=[{', '.join(map(_quoted, proposal.key))}]"]
    parts += [f"version={_quoted(proposal.version)}"] if proposal.version else []
    if proposal.month_of:
        parts.append(f"partition_by=Month({_quoted(proposal.month_of)})")
    conditions = {"apply_as_deletes": proposal.deletes, "apply_as_truncates": proposal.truncates}
    parts += [f"{option}={_condition(condition)}" for option, condition in conditions.items() if condition]
    comment = _comment(proposal) if proposal.warnings else ""
    body = "".join(f"    {part},\n" for part in parts)
    head = f'"""The table of topic {topic}."""\n\nfrom lakehouse import {", ".join(imported_names)}\n\n'
    return f"{head}{comment}{table} = StreamTable(\n{body})\n"


def _comment(proposal: "Proposal") -> str:
    """What the proposal was made from, and what a person has to check."""
    records = f"{proposal.records:,} records" if proposal.records or not proposal.origin else ""
    origins = " and ".join(filter(None, (proposal.origin, records)))
    texts = [f"Proposed from {origins}. Check these points:", *(f"- {warning}" for warning in proposal.warnings)]
    lines = [wrap(text, _WIDTH - 2, subsequent_indent="  ", break_long_words=False) for text in texts]
    return "".join(f"# {line}\n" for text_lines in lines for line in text_lines)


def _condition(condition: "FieldIs | HeaderIs") -> str:
    values = ", ".join(_quoted(value) if isinstance(value, str) else repr(value) for value in condition.values)
    place = _source(condition.record_filter.path or (condition.record_filter.header_name,))
    return f"{type(condition).__name__}({place}, [{values}])"


def _column(column: "Column") -> str:
    arguments = [_quoted(column.name), _quoted(column.type), "doc=" + _quoted(column.doc)]
    arguments += ["required=True"] if column.required else []
    names = column.field.names
    arguments += [f"source={_source(names)}"] if names != (column.name,) else []
    options = ("pattern", "epoch")
    arguments += [f"{option}={_quoted(value)}" for option in options if (value := getattr(column, option))]
    arguments += [f"{option}=True" for option in ("keep", "null_erases") if getattr(column, option)]
    return f"Column({', '.join(arguments)})"


def _source(names: "Sequence[str]") -> str:
    return _quoted(names[0]) if len(names) == 1 else f"({', '.join(map(_quoted, names))})"


def _quoted(text: str) -> str:
    """A Python string literal, in double quotes if that needs no escapes."""
    literal = repr(text)
    can_double = literal[0] == "'" and '"' not in literal and "\\'" not in literal
    return f'"{literal[1:-1]}"' if can_double else literal
