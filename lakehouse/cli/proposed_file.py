"""The file that ``new-table`` writes: a proposed declaration."""

import re
from textwrap import wrap
from typing import TYPE_CHECKING

from lakehouse.cli.output import count_text
from lakehouse.declaration.inference.proposed_types import column_line, source_text
from lakehouse.decoding.formats.shown_options import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import FieldIs, HeaderIs
    from lakehouse.declaration.inference.proposal import Proposal

_WIDTH = 120


def declaration_text(table: str, topics: "Sequence[str]", proposal: "Proposal") -> str:
    """The text of a file with the proposed declaration, formatted as a person would write it."""
    format_text = proposal.form.declared_as
    records = f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"
    doc = f"Records of {records}: one row for each {', '.join(proposal.key) or 'record'}."
    topic_names = ", ".join(map(quote, topics))
    topic_text = f"source=Topics([{topic_names}])" if len(topics) > 1 else f"topic={topic_names}"
    parts = [f"name={quote(table)}", topic_text, f"doc={quote(doc)}", "file=__file__"]
    # a line may break between two options or columns of a format, whose names in a proposal contain no spaces
    format_lines = wrap(f"format={format_text}", _WIDTH - 5, subsequent_indent="        ", break_long_words=False)
    parts += ["\n".join(format_lines)] if format_text else []
    parts += [f"where={_condition(proposal.where)}"] if proposal.where else []
    parts += [] if proposal.rows_from is None else [f"rows_from={_rows_from(proposal)}"]
    columns = "".join(f"        {column_line(column)},\n" for column in proposal.columns)
    parts += [f"columns=[\n{columns}    ]", f"key=[{', '.join(map(quote, proposal.key))}]"]
    if proposal.month_of:
        parts.append(f"partition_by=Month({quote(proposal.month_of)})")
    comment = _comment(proposal) if proposal.warnings else ""
    body = "".join(f"    {part},\n" for part in parts)
    calls = set(re.findall(r"\b([A-Z]\w+)\(", re.sub(r'"[^"]*"', "", body)))
    imported_names = sorted({"StreamTable", *calls})
    head = f'"""The table of {records}."""\n\nfrom lakehouse import {", ".join(imported_names)}\n\n'
    return f"{head}{comment}{table} = StreamTable(\n{body})\n"


def _comment(proposal: "Proposal") -> str:
    """What the proposal was made from, and what a person has to check."""
    records = count_text(proposal.records, "record")
    texts = [f"Proposed from {records}. Check these points:", *(f"- {warning}" for warning in proposal.warnings)]
    lines = [wrap(text, _WIDTH - 2, subsequent_indent="  ", break_long_words=False) for text in texts]
    return "".join(f"# {line}\n" for text_lines in lines for line in text_lines)


def _rows_from(proposal: "Proposal") -> str:
    path = source_text(proposal.rows_from) if proposal.rows_from else "()"
    return f"Explode({path}, single_object=True)" if proposal.single_object else path


def _condition(condition: "FieldIs | HeaderIs") -> str:
    values = ", ".join(quote(value) if isinstance(value, str) else repr(value) for value in condition.values)
    place = source_text(condition.record_filter.path or (condition.record_filter.header_name,))
    return f"{type(condition).__name__}({place}, [{values}])"
