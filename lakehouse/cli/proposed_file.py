"""The file that ``new-table`` writes: a proposal, as a person would declare it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import Column
    from lakehouse.declaration.inference.proposal import Proposal


def declaration_text(table: str, topic: str, proposal: "Proposal") -> str:
    """The file of a declaration, as a person would write it."""
    said = proposal.form.declared_as
    used = {"Column": True, "Month": proposal.month_of, "StreamTable": True, said.partition("(")[0]: said}
    names = sorted(name for name, there in used.items() if there)
    one_row = f"Records of topic {topic}: one row for each {', '.join(proposal.key) or 'record'}."
    parts = [f"name={_quoted(table)}", f"topic={_quoted(topic)}", f"doc={_quoted(one_row)}", "file=__file__"]
    parts += [f"format={said}"] if said else []
    columns = "".join(f"        {_column(column)},\n" for column in proposal.columns)
    parts += [f"columns=[\n{columns}    ]", f"key=[{', '.join(map(_quoted, proposal.key))}]"]
    if proposal.month_of:
        parts.append(f"partition_by=Month({_quoted(proposal.month_of)})")
    doubts = "".join(f"# - {doubt}\n" for doubt in proposal.doubts)
    told = f"# Proposed from {proposal.records:,} records. What they cannot tell:\n{doubts}" if doubts else ""
    body = "".join(f"    {part},\n" for part in parts)
    head = f'"""What topic {topic} tells."""\n\nfrom lakehouse import {", ".join(names)}\n\n'
    return f"{head}{told}{table} = StreamTable(\n{body})\n"


def _column(column: "Column") -> str:
    said = [_quoted(column.name), _quoted(column.type), "doc=" + _quoted(column.doc)]
    said += ["required=True"] if column.required else []
    names = column.field.names
    said += [f"source={_source(names)}"] if names != (column.name,) else []
    said += [f"{how}={_quoted(value)}" for how in ("pattern", "epoch") if (value := getattr(column, how))]
    return f"Column({', '.join(said)})"


def _source(names: "Sequence[str]") -> str:
    return _quoted(names[0]) if len(names) == 1 else f"({', '.join(map(_quoted, names))})"


def _quoted(text: str) -> str:
    """A text as Python reads it, in double quotes where that is as plain."""
    written = repr(text)
    plain = written[0] == "'" and '"' not in written and "\\'" not in written
    return f'"{written[1:-1]}"' if plain else written
