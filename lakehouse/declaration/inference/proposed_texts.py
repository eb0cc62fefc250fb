"""The values of records whose format has only texts: what all texts of a field have in common."""

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.numbers import number_in

_BOOLEANS = {"true": True, "false": False}


def read_texts(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with numbers and booleans for texts, in the fields whose texts all write one."""
    names = dict.fromkeys(name for content in objects for name in content)
    readers = {name: _reader([content[name] for content in objects if content.get(name) is not None]) for name in names}
    return [
        {name: text if text is None else readers[name](text) for name, text in content.items()} for content in objects
    ]


def _reader(texts: Sequence[str]) -> Callable[[str], Any]:
    """What reads all of these texts."""
    if all(text in _BOOLEANS for text in texts):
        return _BOOLEANS.__getitem__
    if not any(isinstance(number_in(text), UnrepresentableValue | None) for text in texts):
        return number_in
    return str
