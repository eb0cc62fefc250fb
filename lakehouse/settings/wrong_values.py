"""What is wrong with a value of a setting, in our own words instead of those of pydantic."""

from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from lakehouse.settings.variables import PREFIX

_CAUSES = {
    "value_error": "{error}",
    "literal_error": "it must be {expected}",
    "bool_parsing": "it must be true or false",
}
"""Our sentence for each type of error that pydantic has for a text; ``value_error`` is one of our own rules."""
_WRONG_TYPE = "it must be text"
"""For values that a program passes: a variable is always text."""


def variable_of(name: str) -> str:
    """The variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def describe_error(error: Any, fields: Mapping[str, FieldInfo]) -> str:
    """Name the variable, its value unless that may be a secret, the cause, and what the setting is for."""
    cause = _CAUSES.get(error["type"], _WRONG_TYPE).format(**error.get("ctx", {}))
    if not error["loc"]:
        return cause  # a rule about several settings names them itself
    name = str(error["loc"][0]).removeprefix(PREFIX.lower())
    field = fields[name]
    value = str(error["input"])
    is_pasted_key = "-----BEGIN" in value  # the user set the key itself, not its file
    is_hidden = "SecretStr" in repr(field.annotation) or name == "tables" or is_pasted_key or {"@", "?"} & {*value}
    shown_value = "" if is_hidden else f"={value!r}"
    return f"{variable_of(name)}{shown_value} cannot be used: {cause}. {field.description}"
