"""The file that ``new-table`` writes: a proposed declaration."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import Column
    from lakehouse.declaration.inference.proposal import Proposal


def declaration_text(table: str, topic: str, proposal: "Proposal") -> str:
    """The text of a file with the proposed declaration, formatted as a person would write it."""
    format_text = proposal.form.declared_as
    uses = {"Column": True, "Month": proposal.month_of, "StreamTable": True, format_text.partition("(")[0]: format_text}
    uses["Avro"] = "Avro()" in format_text
    imported_names = sorted(name for name, is_used in uses.items() if is_used)
    doc = f"Records of topic {topic}: one row for each {', '.join(proposal.key) or 'record'}."
    parts = [f"name={_quoted(table)}", f"topic={_quoted(topic)}", f"doc={_quoted(doc)}", "file=__file__"]
    parts += [f"format={format_text}"] if format_text else []
    columns = "".join(f"        {_column(column)},\n" for column in proposal.columns)
    parts += [f"columns=[\n{columns}    ]", f"key=[{', '.join(map(_quoted, proposal.key))}]"]
    if proposal.month_of:
        parts.append(f"partition_by=Month({_quoted(proposal.month_of)})")
    warnings = "".join(f"# - {warning}\n" for warning in proposal.warnings)
    comment = f"# Proposed from {proposal.records:,} records. Check these points:\n{warnings}" if warnings else ""
    body = "".join(f"    {part},\n" for part in parts)
    head = f'"""The table of topic {topic}."""\n\nfrom lakehouse import {", ".join(imported_names)}\n\n'
    return f"{head}{comment}{table} = StreamTable(\n{body})\n"


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
