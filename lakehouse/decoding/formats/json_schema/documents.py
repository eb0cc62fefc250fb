"""The documents of a JSON Schema, its own and those that it refers to, in the form in which the library reads them.

The library gets patterns in its own syntax, and references by addresses in place of the names that a registry has.
Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urldefrag, urljoin

from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.formats.json_schema.patterns import PatternError, translate

_DRAFTS = {
    "json-schema.org/draft-04/schema": "http://json-schema.org/draft-04/schema#",
    "json-schema.org/draft-06/schema": "http://json-schema.org/draft-06/schema#",
    "json-schema.org/draft-07/schema": "http://json-schema.org/draft-07/schema#",
    "json-schema.org/draft/2019-09/schema": "https://json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema": "https://json-schema.org/draft/2020-12/schema",
}
"""The addresses of the drafts by their names, which some write after another scheme."""
_DEFAULT_DRAFT = "json-schema.org/draft-07/schema"  # that of registries
_BASE = "http://schema.invalid/"  # where the references of a schema without an address begin; nothing is fetched
_ANNOTATIONS = frozenset({"contentEncoding", "contentMediaType"})  # the library would check them
_NUMBERS = frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_ZEROS = (0,) * 10_001
_SHOWN = 150  # characters of a part of a schema in a message
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
"""Keywords with schemas by names."""
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Keywords with schemas for the same value."""
OF_FIELDS = ("properties", ("patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties"))
OF_ITEMS = ("prefixItems", ("items", "additionalItems", "contains", "unevaluatedItems"))
"""Keywords with schemas for fields, and for items: those of the first are each for another, the rest may be for one."""
_VALUES = frozenset({"enum", "const", "default", "examples"})


class Documents:
    """A schema and those that it refers to by name, as the library reads them: ``by_address``, with ``base`` its own.

    ``patterns`` are patterns as they were written, by those that the library gets, and ``step_count`` the most steps of
    one. ``unusable_patterns`` are others, with the reason. ``dynamic_addresses`` are those that dynamic references may
    mean, by anchor. ``absent_addresses`` are those of schemas that references name and nobody registered.
    """

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self.patterns, self.step_count = dict[str, str](), 0
        self.unusable_patterns: dict[str, str] = {}
        self._id_name = "$id"
        self.dynamic_addresses: dict[str, list[str]] = {}
        self.absent_addresses = set[str]()
        self.base = _address_of(root, _BASE, _id_name(root))
        self._addresses = dict[str, str]()
        contents = {self.base: root}
        for name, content in references.items():
            named_address = urljoin(_BASE, urljoin(self.base, quote(name, safe="/:?=&~+,;@!$()*'%")))
            address = _address_of(content, named_address, _id_name(content))
            self._addresses |= {name: address, named_address: address}
            if contents.setdefault(address, content) is not content:
                raise UnusableSchemaError(f"two schemas have the address {address[:_SHOWN]!a}")
        self.by_address = {address: self._document(content, address) for address, content in contents.items()}

    def note_absent(self, address: str) -> bool:
        """Answer the library, which asks for a schema that nobody registered; nothing is fetched."""
        self.absent_addresses.add(address)
        return True

    def _document(self, content: Any, address: str) -> Any:
        """A document with its draft, in the form in which the library reads it."""
        if not isinstance(content, dict):
            return content
        self._id_name = _id_name(content)
        return {**self._schema(content, address), "$schema": _DRAFTS[_draft_of(content)]}

    def _schema(self, content: Any, base: str) -> Any:
        """A schema, or a list of schemas, with patterns and names of references as the library reads them."""
        if isinstance(content, list):
            return [self._schema(item, base) for item in content]
        if not isinstance(content, dict):
            return content
        base = _address_of(content, base, self._id_name)
        for anchor in (content.get("$dynamicAnchor"), "" if content.get("$recursiveAnchor") is True else None):
            if isinstance(anchor, str):
                self.dynamic_addresses.setdefault(anchor, []).append(f"{base}#{anchor}")
        return {name: self._value(name, value, base) for name, value in content.items() if name not in _ANNOTATIONS}

    def _value(self, keyword: str, value: Any, base: str) -> Any:
        if keyword == "$ref" and isinstance(value, str):
            bare_reference, hash_sign, fragment = value.partition("#")
            return self._addresses.get(bare_reference, bare_reference) + hash_sign + fragment
        if keyword in _NUMBERS and isinstance(value, Decimal):
            return _with_many_digits(value)
        if keyword == "pattern" and isinstance(value, str):
            return self._pattern(value)
        if keyword in MAPS and isinstance(value, dict):
            is_by_pattern = keyword == "patternProperties"
            return {
                self._pattern(name) if is_by_pattern else name: self._schema(inner, base)
                for name, inner in value.items()
            }
        return value if keyword in _VALUES else self._schema(value, base)  # a reference may lead into other keywords

    def _pattern(self, pattern: str) -> str:
        try:
            translated, step_count = translate(pattern)
        except PatternError as error:
            self.unusable_patterns[pattern] = str(error)
            return pattern
        self.patterns[translated] = pattern
        self.step_count = max(self.step_count, step_count)
        return translated


def _with_many_digits(number: Decimal) -> Decimal:
    """The same number with so many zeros at its end that the library does not compare doubles in its place."""
    sign, digits, exponent = number.as_tuple()
    return Decimal((sign, digits + _ZEROS, int(exponent) - len(_ZEROS)))


def _draft_of(content: Any) -> str:
    """The name of the draft of a document; raises ``UnusableSchemaError`` if it is unknown."""
    name = content.get("$schema", _DEFAULT_DRAFT) if isinstance(content, dict) else _DEFAULT_DRAFT
    bare_name = name.rstrip("#").removeprefix("https://").removeprefix("http://") if isinstance(name, str) else ""
    if bare_name not in _DRAFTS:
        raise UnusableSchemaError(f"its $schema is {ascii(name)[:_SHOWN]}, not draft 4, 6, 7, 2019-09 or 2020-12")
    return bare_name


def _id_name(content: Any) -> str:
    return "id" if "draft-04" in _draft_of(content) else "$id"


def _address_of(content: Any, base: str, id_name: str) -> str:
    """The address of a schema: its own, or the one that its references begin at."""
    own_id = content.get(id_name) if isinstance(content, dict) else None
    is_address = isinstance(own_id, str) and not own_id.startswith("#")
    return urldefrag(urljoin(base, own_id)).url if is_address else base
