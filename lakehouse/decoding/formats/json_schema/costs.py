"""What the checks of a schema may cost: a bound for each value, and one for the explanation of a violation.

The library checks a value again for each way that leads to a schema, so a small schema could take years. Each schema is
a node here, with those that it applies to the same value and to the values within it.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urldefrag, urljoin

from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.formats.json_schema.documents import IN_PLACE, MAPS, OF_FIELDS, OF_ITEMS, Documents

if TYPE_CHECKING:
    from jsonschema_rs import Resolver

MAX_COST = 10_000
"""Schemas that may be applied to one value."""
MAX_HEIGHT = 100
"""Schemas that may be applied to the same value within each other: each takes space on the stack."""
_MAX_NODES = 100_000
_SLOW_VALUE_COST = 10  # of a value of ``enum`` that is compared slowly
_UNBOUNDED = 10**12
_TYPES = {
    "$ref": str,
    "$dynamicRef": str,
    "$recursiveRef": str,
    "pattern": str,
    "patternProperties": dict,
    "enum": list,
}


class Node:
    """One schema: its own cost, and the schemas that it applies to the same value and to values within it."""

    __slots__ = ("factor", "height", "in_place", "inner", "own_cost")

    def __init__(self) -> None:
        self.in_place = list[Node]()
        self.inner = [(list[Node](), list[Node]()) for _ in (OF_FIELDS, OF_ITEMS)]
        self.own_cost = self.factor = self.height = 1

    def followers(self) -> Iterator["Node"]:
        """Yield the schemas that this one applies."""
        return chain(self.in_place, *(nodes for parts in self.inner for nodes in parts))

    def cost(self, costs: Mapping["Node", int], inner_costs: Mapping["Node", int]) -> int:
        """The most schemas that are applied to one value, by those of its followers for it and for values within it."""
        cost_within = max(
            max((inner_costs[node] for node in for_others), default=0) + sum(inner_costs[node] for node in for_one)
            for for_others, for_one in self.inner
        )
        cost_in_place = self.factor * sum(costs[node] for node in self.in_place)
        return min(_UNBOUNDED, self.own_cost + cost_in_place + cost_within)


class SchemaPlace(NamedTuple):
    """A schema in a document, with what resolves its references, and its draft as the library numbers it."""

    content: Any
    resolver: "Resolver"
    draft: int


class Costs:
    """The costs of a schema; raises ``UnusableSchemaError`` if they have no bound, or a reference leads nowhere.

    ``compares_items``: it has ``uniqueItems``. ``has_alternatives``: it has ``anyOf`` or ``oneOf``. ``height``: so
    many schemas may be applied to the same value within each other.
    """

    def __init__(self, root: SchemaPlace, documents: Documents) -> None:
        self._documents = documents
        self._targets: dict[str, Node] = {}
        self.compares_items = self.has_alternatives = False
        self._nodes, self._pending = list[Node](), list[tuple[Node, SchemaPlace]]()
        self._root = self._node(root)
        while self._pending:
            self._fill(*self._pending.pop())
        try:
            self._order = [*TopologicalSorter({node: node.in_place for node in self._nodes}).static_order()]
        except CycleError:
            raise UnusableSchemaError("a schema in it refers to itself for the same value") from None
        self._at_depth = self._costs_within(dict.fromkeys(self._nodes, 0))
        self._depth_costs = [self._at_depth[self._root]]
        self._require_bounds()

    def of_explanation(self, depth: int) -> int:
        """The most schemas that are applied to one value of a record with this depth, if no result is kept."""
        while len(self._depth_costs) <= depth and self._depth_costs[-1] < _UNBOUNDED:
            self._at_depth = self._costs_within(self._at_depth)
            self._depth_costs.append(self._at_depth[self._root])
        return self._depth_costs[min(depth, len(self._depth_costs) - 1)]

    def _costs_within(self, inner_costs: Mapping[Node, int]) -> dict[Node, int]:
        costs = dict[Node, int]()
        for node in self._order:
            costs[node] = node.cost(costs, inner_costs)
        return costs

    def _require_bounds(self) -> None:
        """Raise ``UnusableSchemaError`` if a value could be checked too often; containers in a recursion are not."""
        for node in self._order:
            node.height = 1 + max((follower.height for follower in node.in_place), default=0)
        self.height = max(node.height for node in self._nodes)
        if self.height > MAX_HEIGHT:
            raise UnusableSchemaError(f"it applies more than {MAX_HEIGHT} schemas within each other to the same value")
        costs = dict(self._at_depth)
        back_edges = self._back_edges()
        followers = {node: [to for to in node.followers() if (node, to) not in back_edges] for node in self._nodes}
        for node in TopologicalSorter(followers).static_order():
            costs[node] = node.cost(costs, costs)
        if max(costs.values()) > MAX_COST:
            raise UnusableSchemaError(f"it can apply more than {MAX_COST} schemas to one value")

    def _back_edges(self) -> set[tuple[Node, Node]]:
        """The steps that lead to a schema that is on the way already."""
        edges, seen = set[tuple[Node, Node]](), {self._root}
        way = {self._root: self._root.followers()}
        while way:
            last_node, followers = next(reversed(way.items()))
            node = next(followers, None)
            if node is None:
                del way[last_node]
            elif node in way:
                edges.add((last_node, node))
            elif node not in seen:
                seen.add(node)
                way[node] = node.followers()
        return edges

    def _node(self, place: SchemaPlace) -> Node:
        self._nodes.append(Node())
        if len(self._nodes) > _MAX_NODES:
            raise UnusableSchemaError(f"it has more than {_MAX_NODES} schemas")
        if isinstance(place.content, dict):
            self._pending.append((self._nodes[-1], place))
        return self._nodes[-1]

    def _fill(self, node: Node, place: SchemaPlace) -> None:
        content, resolver, draft = place
        _require_types(content)
        own_id = content.get("id" if draft == 4 else "$id")
        if isinstance(own_id, str) and not own_id.startswith("#"):
            resolver = _resolver_at(own_id, resolver)
        if "$ref" in content:
            node.in_place.append(self._target(content["$ref"], resolver))
            if draft <= 7:
                return
        node.in_place += self._dynamic_targets(place._replace(resolver=resolver))
        self._require_usable_patterns(content)
        self.compares_items |= content.get("uniqueItems") is True
        self.has_alternatives |= not content.keys().isdisjoint(("anyOf", "oneOf"))
        node.own_cost += _SLOW_VALUE_COST * sum(map(_is_compared_slowly, content.get("enum", ())))
        node.factor = 3 if {"unevaluatedProperties", "unevaluatedItems"} & content.keys() else 1
        content = {name: part for name, part in content.items() if not _has_no_effect(name, content)}
        node.in_place += [self._node(SchemaPlace(part, resolver, draft)) for part in _schemas_in(content, IN_PLACE)]
        for (name, names), (for_others, for_one) in zip((OF_FIELDS, OF_ITEMS), node.inner, strict=True):
            for_others += [self._node(SchemaPlace(part, resolver, draft)) for part in _schemas_in(content, (name,))]
            for_one += [self._node(SchemaPlace(part, resolver, draft)) for part in _schemas_in(content, names)]

    def _require_usable_patterns(self, content: Mapping[str, Any]) -> None:
        for pattern in (content.get("pattern", ""), *content.get("patternProperties", ())):
            if pattern in self._documents.unusable_patterns:
                reason = self._documents.unusable_patterns[pattern]
                raise UnusableSchemaError(f"its pattern {pattern[:150]!a} cannot be used: {reason}")

    def _target(self, reference: str, resolver: "Resolver") -> Node:
        import jsonschema_rs  # noqa: PLC0415 - a worker needs it only for tables whose records are checked

        address = urljoin(resolver.base_uri, reference)
        if address not in self._targets:
            try:
                resolved = resolver.lookup(reference)
            except jsonschema_rs.ReferencingError:
                resolved = None
            if resolved is None or resolved.resolver.base_uri in self._documents.absent_addresses:
                raise UnusableSchemaError(
                    f"it refers to {reference[:150]!a}, which is neither in it nor in the references of its id"
                )
            self._targets[address] = self._node(SchemaPlace(resolved.contents, resolved.resolver, resolved.draft))
        return self._targets[address]

    def _dynamic_targets(self, place: SchemaPlace) -> Iterator[Node]:
        """Yield every schema that the dynamic reference of a schema may mean."""
        keyword = {19: "$recursiveRef", 20: "$dynamicRef"}.get(place.draft, "")
        if keyword and keyword in place.content:
            reference = place.content[keyword]
            anchor = urldefrag(reference).fragment
            yield self._target(reference, place.resolver)
            content = place.resolver.lookup(reference).contents
            if isinstance(content, dict) and content.get(keyword.replace("Ref", "Anchor")) == (anchor or True):
                for address in self._documents.dynamic_addresses.get(anchor, ()):
                    yield self._target(address, place.resolver)


def _require_types(content: Mapping[str, Any]) -> None:
    """Raise ``UnusableSchemaError`` if a keyword, perhaps of another draft, has a value of another type."""
    for name, type_ in _TYPES.items():
        if name in content and not isinstance(content[name], type_):
            raise UnusableSchemaError(f"it is not JSON Schema: {name!r} has a value of another type")


def _has_no_effect(name: str, content: Mapping[str, Any]) -> bool:
    if name == "additionalItems":
        return not isinstance(content.get("items"), list)
    return name in ("then", "else") and "if" not in content


def _is_compared_slowly(value: Any) -> bool:
    """Whether the library compares a value of ``enum`` with each number, array or object in turn."""
    return isinstance(value, dict | list | float | Decimal)


def _schemas_in(content: Mapping[str, Any], names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        part = content.get(name)
        parts = part.values() if isinstance(part, dict) and name in MAPS else part if isinstance(part, list) else [part]
        yield from (inner for inner in parts if isinstance(inner, dict))


def _resolver_at(own_id: str, resolver: "Resolver") -> "Resolver":
    """What resolves references within a schema that has an address of its own."""
    import jsonschema_rs  # noqa: PLC0415 - a worker needs it only for tables whose records are checked

    try:
        return resolver.lookup(own_id).resolver
    except jsonschema_rs.ReferencingError:
        return resolver
