"""Rows as text: lines of CSV and of JSON, the same in a terminal, in the file of a query and in an export."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

_UNQUOTED_TYPES = {bool, int, float, Decimal, date, datetime, type(None)}
_PLAIN_TYPES = {str, int, bool, type(None), datetime}
_QUOTED_IN_CSV = re.compile('[",\r\n]')


def csv_line(values: Iterable[Any]) -> str:
    """A line of CSV: NULL is empty, an empty text two quotes; nested values are JSON, bytes base64."""
    return ",".join("" if value is None else _csv_field(value_text(value)) for value in values) + "\n"


def csv_fields(values: Sequence[Any]) -> list[str]:
    """The values of a column as the fields that ``csv_line`` writes for them."""
    if {*map(type, values)} <= _UNQUOTED_TYPES:  # most columns: their text has no character that needs quotes
        return ["" if value is None else value_text(value) for value in values]
    return ["" if value is None else _csv_field(value_text(value)) for value in values]


def _csv_field(text: str) -> str:
    return text if text and not _QUOTED_IN_CSV.search(text) else '"' + text.replace('"', '""') + '"'


def json_line(value: Any) -> str:
    """A line of JSON: times in ISO 8601, decimals as text (exact), bytes in base64."""
    from pydantic_core import to_json  # noqa: PLC0415 - slow to import

    return to_json(json_ready(value)).decode() + "\n"


def value_text(value: Any) -> str:
    """A value as text; a nested value as JSON, bytes in base64."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return decimal_text(value)
    if not isinstance(value, list | tuple | dict):
        return str(value)
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - slow to import

    return json.dumps(to_jsonable_python(json_ready(value)), ensure_ascii=False)


def decimal_text(value: Decimal) -> str:
    """A decimal with all its digits: not every reader of one knows exponents."""
    return format(value, "f")


def json_ready(value: Any) -> Any:
    """Return a value with bytes, and numbers that JSON does not have, as text; pydantic writes the rest."""
    if type(value) in _PLAIN_TYPES:  # most values: the checks below take longer
        return value
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return {json_ready(key): json_ready(item) for key, item in value.items()}
    return [json_ready(item) for item in value] if isinstance(value, list | tuple | set) else value
