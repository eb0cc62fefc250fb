"""Parts that are cut out of texts: by a regular expression, or by the places of characters.

Expressions are those of RE2, whose time grows linearly with a text. Runs on the driver and, shipped by value, on
Spark's executors.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.decoding.fields import Field, Rejection, as_written, is_text, json_kind, short_text

NO_MATCH = "no_match"
Groups = Mapping[str, str | None]
GROUP = re.compile(r"\(\?P?<(\w+)>")
"""The beginning of a group with a name."""


def match_texts(texts: Sequence[str], pattern: str) -> list[Groups | None]:
    """The groups of a pattern in each text that it matches as a whole, an empty one as null; ``None`` for others.

    A line break at the end of a text is not part of it.
    """
    matches = _matches(texts, pattern)
    names, is_matched = matches.type.names, matches.is_valid().to_pylist()
    rows = zip(*(column.to_pylist() for column in matches.flatten()), strict=True)
    return [
        {name: group or None for name, group in zip(names, row, strict=True)} if matched else None
        for row, matched in zip(rows, is_matched, strict=True)
    ]


def _matches(texts: Sequence[str], pattern: str) -> Any:
    """The groups in each text, an array of structs."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.compute import extract_regex  # noqa: PLC0415

    return extract_regex(pa.array(map(without_line_end, texts), pa.string()), f"^(?:{pattern})$")


def without_line_end(text: str) -> str:
    """Return a text without the line break at its end."""
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def cut_values(raws: Sequence[Any], field: Field) -> list[Any]:
    """The part of each text that a field reads; ``()``, which no column accepts, of one that does not match."""
    values: list[Any] = [None if raw is None else () for raw in raws]
    rows = [row for row, raw in enumerate(raws) if type(raw) is str and is_text(raw)]
    texts, part = [raws[row] for row in rows], field.place.cut
    if isinstance(part, str):
        only_group = GROUP.sub(lambda group: group[0] if group[1] == field.name else "(?:", part)
        parts = [() if text is None else text or None for text in _matches(texts, only_group).flatten()[0].to_pylist()]
    else:
        parts = [text[slice(*part)].strip() or None for text in texts] if part else texts
    for row, value in zip(rows, parts, strict=True):
        values[row] = None if value in field.form.null_values else value
    return values


def cut_part(raw: Any, field: Field) -> str | None:
    """The part of one text that a field reads; raises ``Rejection`` if it does not match, or if it is not a text."""
    raw = as_written(raw)
    if not isinstance(raw, str):
        raise Rejection("wrong_type", f"{field.source!r} is {json_kind(raw)} {short_text(raw)}, expected a text")
    text = str(raw)
    if not is_text(text):
        raise Rejection("invalid_text", f"{field.source!r} contains half of a surrogate pair")
    part: Any
    if isinstance(field.place.cut, str):
        part = _LAST_GROUPS[text, field.place.cut].get(field.name, ())
    else:
        (part,) = cut_values([text], field)
    if part == ():
        raise Rejection(NO_MATCH, f"the pattern of {field.name} does not match {field.source!r}, {short_text(text)}")
    return None if part is None else str(part)


class _LastGroups(dict[tuple[str, str], Groups]):
    """The groups of the last text: the columns of a record mostly read the same."""

    def __missing__(self, place: tuple[str, str]) -> Groups:
        text, pattern = place
        self.clear()
        self[place] = match_texts([text], pattern)[0] or {}
        return self[place]


_LAST_GROUPS = _LastGroups()
