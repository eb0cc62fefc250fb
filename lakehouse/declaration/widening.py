"""Which types can replace the type of a column: those that hold all of its values, or may hold them."""

import re

_DIGITS = {"INT": (10, 0), "BIGINT": (19, 0)}
_RECASTS = {
    "number": ("number", "INT", "STRING"),
    "INT": ("number", "INT", "STRING"),
    "STRING": ("number", "INT", "DATE", "BOOLEAN"),
    "DATE": ("TIMESTAMP", "STRING"),
    "TIMESTAMP": ("DATE",),
    "BOOLEAN": ("STRING",),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def is_widened(narrow: str, wide: str) -> bool:
    """Whether the wide type holds every value of the narrow type, and the two types differ."""
    narrow, wide = narrow.upper().replace(" ", ""), wide.upper().replace(" ", "")
    if wide in ("BIGINT", "DOUBLE"):
        return narrow == "INT"
    before, after = _digits(narrow), _digits(wide)
    if before is None or after is None or wide in _DIGITS or narrow == wide:
        return False
    (old_precision, old_scale), (new_precision, new_scale) = before, after
    return new_scale >= old_scale and new_precision - new_scale >= old_precision - old_scale


def is_recast(stored_type: str, declared_type: str) -> bool:
    """Whether values of the stored type may have the declared type without a change of meaning.

    If so, each value is checked when it is rewritten. Numbers become neither times, because their unit is unknown, nor
    booleans. A TIMESTAMP does not become a STRING, because a time has many text formats.
    """
    before, after = (_kind(type_.upper().replace(" ", "")) for type_ in (stored_type, declared_type))
    return after in _RECASTS.get(before, ())


def has_more_places(narrow: str, wide: str) -> bool:
    """Whether a decimal gets more decimal places: values that were rounded before would then be other values."""
    before, after = (_DECIMAL.fullmatch(type_.upper().replace(" ", "")) for type_ in (narrow, wide))
    return before is not None and after is not None and int(after[2]) > int(before[2])


def _digits(type_: str) -> tuple[int, int] | None:
    """The precision and scale of a type; ``None`` if it is not an exact number."""
    decimal = _DECIMAL.fullmatch(type_)
    return (int(decimal[1]), int(decimal[2])) if decimal else _DIGITS.get(type_)


def _kind(type_: str) -> str:
    """The kind of a type's values; integers are a kind of their own, because only they have a single text format."""
    if type_ in _DIGITS:
        return "INT"
    return "number" if type_ == "DOUBLE" or _DECIMAL.fullmatch(type_) else type_
