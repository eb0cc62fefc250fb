"""Which type holds every value of another one, or may hold it, so that a column may be given it later."""

import re

_DIGITS = {"INT": (10, 0), "BIGINT": (19, 0)}
_MEANS_THE_SAME = {
    "number": ("number", "INT", "STRING"),
    "INT": ("number", "INT", "STRING"),
    "STRING": ("number", "INT", "DATE", "BOOLEAN"),
    "DATE": ("TIMESTAMP", "STRING"),
    "TIMESTAMP": ("DATE",),
    "BOOLEAN": ("STRING",),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def is_widened(narrow: str, wide: str) -> bool:
    """Whether every value of the narrow type is one of the wide type, and they are not the same."""
    narrow, wide = narrow.upper().replace(" ", ""), wide.upper().replace(" ", "")
    if wide in ("BIGINT", "DOUBLE"):
        return narrow == "INT"
    before, after = _digits(narrow), _digits(wide)
    if before is None or after is None or wide in _DIGITS or narrow == wide:
        return False
    (precision, scale), (more, places) = before, after
    return places >= scale and more - places >= precision - scale


def is_recast(stands: str, declared: str) -> bool:
    """Whether values of a type may be values of the other one and mean what they meant: each is looked at then.

    A number is no time, whose unit nobody would know, and no truth; a time is written as text in many ways.
    """
    before, after = (_kind(each.upper().replace(" ", "")) for each in (stands, declared))
    return after in _MEANS_THE_SAME.get(before, ())


def has_more_places(narrow: str, wide: str) -> bool:
    """Whether a decimal is widened to more places: what was rounded to those it had is then not what it would be."""
    before, after = (_DECIMAL.fullmatch(each.upper().replace(" ", "")) for each in (narrow, wide))
    return before is not None and after is not None and int(after[2]) > int(before[2])


def _digits(type_: str) -> tuple[int, int] | None:
    """How many digits a type holds, and how many of them are places; ``None`` where it holds no such numbers."""
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]), int(found[2])) if found else _DIGITS.get(type_)


def _kind(type_: str) -> str:
    """A type by what its values mean: whole numbers alone are written in one way."""
    if type_ in _DIGITS:
        return "INT"
    return "number" if type_ == "DOUBLE" or _DECIMAL.fullmatch(type_) else type_
