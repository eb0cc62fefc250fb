"""The documents of a JSON Schema: its own and those that it refers to, with what its references mean.

No reference is ever fetched: it leads into one of these documents, or the schema cannot be used.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from lakehouse.decoding.formats.format import UnusableSchemaError

_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
"""The drafts by their names in ``$schema``, without the scheme of the address."""
_DEFAULT_DRAFT = 7  # that of registries
_SCHEMAS = {
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
}
_SCHEMAS |= {"unevaluatedItems", "unevaluatedProperties"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_MAPS = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
_MAX_SHOWN = 150  # characters of a reference


class Place(NamedTuple):
    """A schema within a document: its content, the address that its references begin at, and the draft.

    ``has_address``: the address is that of this very schema.
    """

    content: Any
    base: str
    draft: int
    has_address: bool = False

    def of(self, content: Any) -> "Place":
        """A schema within this one; it may have an address of its own."""
        own_id = self._id_of(content)
        base = urldefrag(urljoin(self.base, own_id)).url if own_id else self.base
        return Place(content, base, self.draft, bool(own_id))

    def inner(self) -> Iterator["Place"]:
        """Yield the schemas within this one."""
        for name, part in self.content.items() if isinstance(self.content, dict) else ():
            parts = [part] if name in _SCHEMAS else []
            parts = part if name in _LISTS and isinstance(part, list) else parts
            parts = [*part.values()] if name in _MAPS and isinstance(part, dict) else parts
            yield from (self.of(content) for content in parts if isinstance(content, dict | bool))

    def _id_of(self, content: Any) -> str:
        name = "id" if self.draft == 4 else "$id"
        own_id = content.get(name) if isinstance(content, dict) else None
        is_reference = self.draft <= 7 and isinstance(content, dict) and "$ref" in content
        return own_id if isinstance(own_id, str) and not own_id.startswith("#") and not is_reference else ""


class Documents:
    """A schema and those that it refers to, by the names under which it does; see ``Place`` and ``resolve``."""

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self._resources: dict[str, Place] = {}
        self._anchors: dict[str, Place] = {}
        self._dynamic_anchors: dict[str, list[Place]] = {}
        self.root = Place("", "", draft_of(root)).of(root)
        self._index(self.root)
        self._resources.setdefault("", self.root)
        for name, content in references.items():
            address = urldefrag(urljoin(self.root.base, name)).url
            place = Place("", address, draft_of(content)).of(content)
            for known_name in dict.fromkeys((name, address)):
                self._add_resource(known_name, place)
            self._index(place)

    def resolve(self, reference: str, place: Place) -> Place:
        """The schema that a reference in a place means; raises ``UnusableSchemaError`` if there is none."""
        bare_reference, fragment = urldefrag(reference)
        address = urldefrag(urljoin(place.base, bare_reference)).url if bare_reference else place.base
        resource = self._resources.get(address) or self._resources.get(bare_reference)
        target = self._anchors.get(f"{address}#{fragment}") if fragment and fragment[0] != "/" else resource
        if resource and target and fragment.startswith("/"):
            target = _follow(resource, fragment)
        if target is None or not isinstance(target.content, dict | bool):
            shown_text = ascii(reference[:_MAX_SHOWN])
            raise UnusableSchemaError(
                f"it refers to {shown_text}, which is neither in it nor in the references of its id"
            )
        return target

    def resolve_dynamic(self, keyword: str, reference: str, place: Place) -> Place:
        """Like ``resolve``, if the target cannot depend on the schemas around the reference."""
        anchor = "" if keyword == "$recursiveRef" else urldefrag(reference).fragment
        if len(self._dynamic_anchors.get(anchor, [])) > 1:
            raise UnusableSchemaError(f"its {keyword} {reference[:_MAX_SHOWN]!a} has several possible targets")
        return self.resolve(reference, place)

    def _index(self, root: Place) -> None:
        pending_places = [root]
        while pending_places:
            place = pending_places.pop()
            if isinstance(place.content, dict):
                self._index_one(place, place.content)
            pending_places += place.inner()

    def _index_one(self, place: Place, content: Mapping[str, Any]) -> None:
        own_id = content.get("id" if place.draft == 4 else "$id")
        if place.has_address:
            self._add_resource(place.base, place)
        anchors = [content.get("$anchor"), content.get("$dynamicAnchor")] if place.draft > 7 else []
        anchors += [own_id[1:]] if isinstance(own_id, str) and own_id.startswith("#") and place.draft <= 7 else []
        for anchor in anchors:
            if isinstance(anchor, str):
                self._anchors.setdefault(f"{place.base}#{anchor}", place)
        if isinstance(content.get("$dynamicAnchor"), str) and place.draft == 2020:
            self._dynamic_anchors.setdefault(content["$dynamicAnchor"], []).append(place)
        if content.get("$recursiveAnchor") is True and place.draft == 2019:
            self._dynamic_anchors.setdefault("", []).append(place)

    def _add_resource(self, address: str, place: Place) -> None:
        if self._resources.setdefault(address, place).content is not place.content:
            raise UnusableSchemaError(f"two schemas have the address {address[:_MAX_SHOWN]!a}")


def draft_of(content: Any) -> int:
    """The draft that a document names, by default draft 7; raises ``UnusableSchemaError`` if it is another one."""
    name = content.get("$schema") if isinstance(content, dict) else None
    if name is None:
        return _DEFAULT_DRAFT
    bare_name = name.rstrip("#").removeprefix("https://").removeprefix("http://") if isinstance(name, str) else ""
    draft = _DRAFTS.get(bare_name)
    if draft is None:
        raise UnusableSchemaError(f"its $schema is {ascii(name)[:_MAX_SHOWN]}, not draft 4, 6, 7, 2019-09 or 2020-12")
    return draft


def _follow(place: Place, pointer: str) -> Place | None:
    """The part of a document that a JSON pointer leads to; ``None`` if there is none."""
    for step in unquote(pointer).split("/")[1:]:
        name, content = step.replace("~1", "/").replace("~0", "~"), place.content
        if isinstance(content, dict) and name in content:
            place = place.of(content[name])
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            place = place.of(content[int(name)])
        else:
            return None
    return place
