"""Values of tables in JSON: decimals and bytes as text, and so are numbers that JSON does not have."""

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any

_PLAIN_TYPES = {str, int, bool, type(None), Decimal, datetime}


def json_ready(value: Any) -> Any:
    """Return a value with bytes, and numbers that JSON does not have, as text; pydantic writes the rest."""
    if type(value) in _PLAIN_TYPES:  # most values: the checks below take longer
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return {json_ready(key): json_ready(item) for key, item in value.items()}
    return [json_ready(item) for item in value] if isinstance(value, list | tuple | set) else value
