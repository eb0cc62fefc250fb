"""Steps into an array that people write in a path, such as ``items[0]``: no path of a column or a condition has any."""

import re
from collections.abc import Sequence

from lakehouse.decoding.formats import Format

ARRAY_NAME = "Field {!r} is left out: its name looks like a place in an array. UnmappedFields() has its value."
"""Why no column is proposed for a field whose name has a step into an array."""
_STEP = re.compile(r"(?P<array>.*?)\[(?P<place>[0-9*]*)\](?=\.|$)", re.DOTALL)


def array_step(names: Sequence[str]) -> re.Match[str] | None:
    """The first step into an array of a path, with the name of the ``array`` and the ``place`` in it."""
    return next((match for name in names if (match := _STEP.match(name))), None)


def json_names(names: Sequence[str], form: Format) -> Sequence[str]:
    """The names of a path that are fields of JSON: the name of a field of a text format may be any."""
    return names[1:] if form.is_text else names
