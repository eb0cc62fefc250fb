"""Values of which nearly all are times or numbers: a few odd ones do not hide that, and each is named."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lakehouse.declaration.inference.proposed_forms import ProposedForm, find_form
from lakehouse.declaration.inference.proposed_key import are_like_times
from lakehouse.declaration.inference.proposed_types import type_of
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.formats.shown_options import quote

_NO_VALUE = re.compile(r"0|0{8}|0{14}|0000-00-00.*|-+|\\.+|\\?+|n/?a|null|none|nil|nan|unknown|\\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[\d.,]+", re.ASCII)
_LEAST_VALUES, _LEAST_SHARE = 20, 0.95
_MAX_ODD, _MAX_LENGTH = 3, 30
_REJECTED = "The others, such as {}, are then rejected. Those that mean that there is no value belong in null_values."


def least_common(count: int) -> float:
    """How many of so many values must have a form that a few others do not hide."""
    return max(_LEAST_VALUES, _LEAST_SHARE * count)


def odd_values_warning(column: Column, values: Sequence[Any]) -> str | None:
    """What to write if all values but those of a few forms are times or numbers; ``None`` if they are not.

    Texts such as n/a, and zeros in place of a date, may become NULL, however many there are.
    """
    odd_texts = sorted({str(value) for value in values if _NO_VALUE.fullmatch(str(value))})
    if 0 < len(odd_texts) <= _MAX_ODD:
        form = _form_of(column, [value for value in values if str(value) not in odd_texts])
        if form:
            shown_texts = show_texts(odd_texts)
            null_column = replace(form.column, null_values=odd_texts, required=False)
            return form._replace(column=null_column).warning(f", except {shown_texts}", f", and NULL for {shown_texts}")
    least_count = least_common(len(values))
    for has_form in (_is_like_time, _is_like_number):
        regular_values = [value for value in values if has_form(value)]
        if least_count <= len(regular_values) and not _form_of(column, regular_values):
            regular_values = [value for value in regular_values if _form_of(column, [value])]
        odd_texts = sorted({*map(str, values)} - {*map(str, regular_values)})
        form = _form_of(column, regular_values) if least_count <= len(regular_values) else None
        if form and odd_texts:
            warning = form.warning(f" in {len(regular_values):,} of {len(values):,} records")
            return f"{warning} {_REJECTED.format(show_texts(odd_texts))}"
    return None


def _form_of(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of texts that are times of one pattern, or of other forms."""
    if not values:
        return None
    type_ = type_of(values)
    if type_ and type_[1]:
        return ProposedForm("looks like a time", "times", replace(column, type=type_[0], pattern=type_[1]))
    return find_form(column, values)


def _is_like_time(value: Any) -> bool:
    return are_like_times([str(value)])


def _is_like_number(value: Any) -> bool:
    return _NUMBER.fullmatch(str(value)) is not None


def show_texts(texts: Sequence[str]) -> str:
    """The first texts, shortened, for a warning."""
    return " and ".join(quote(text[:_MAX_LENGTH]) for text in texts[:_MAX_ODD])
