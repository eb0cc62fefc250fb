"""Compile the documents of a JSON Schema into the checks of values, once for each schema.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.formats.json_schema import containers, scalars
from lakehouse.decoding.formats.json_schema.checks import Node
from lakehouse.decoding.formats.json_schema.documents import Documents, Place
from lakehouse.decoding.formats.json_schema.pattern_syntax import PatternError
from lakehouse.decoding.formats.json_schema.patterns import Pattern

T = TypeVar("T")


def compile_schema(documents: Documents) -> Node:
    """Return the checks of a schema; raises ``UnusableSchemaError`` if they cannot be made."""
    compiler = _Compiler(documents)
    root = compiler.node(documents.root)
    try:
        while compiler.pending:
            compiler.fill(*compiler.pending.pop())
        TopologicalSorter({node: node.in_place for node in compiler.nodes.values()}).prepare()
    except CycleError:
        raise UnusableSchemaError("a schema in it refers to itself for the same value") from None
    return root


class _Compiler:
    """``nodes`` are those of the schemas that were met; ``pending`` are those that are still without checks."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.nodes: dict[tuple[int, str, int], Node] = {}
        self.pending: list[tuple[Node, Place]] = []

    def node(self, place: Place) -> Node:
        """Return the node of a schema, which gets its checks later: schemas may refer to each other."""
        key = id(place.content), place.base, place.draft
        if key not in self.nodes:
            self.nodes[key] = Node()
            self.pending.append((self.nodes[key], place))
        return self.nodes[key]

    def fill(self, node: Node, place: Place) -> None:
        """Add the checks of a schema to its node."""
        if isinstance(place.content, bool):
            if not place.content:
                node.add(containers.nothing("false"))
            return
        _SchemaPart(self, node, place).add_all()

    def target(self, keyword: str, place: Place) -> Node:
        """Return the node of the schema that a reference means."""
        documents, reference = self._documents, place.content[keyword]
        if keyword == "$ref":
            return self.node(documents.resolve(reference, place))
        return self.node(documents.resolve_dynamic(keyword, reference, place))


class _SchemaPart:
    """One schema of a document, whose checks go into ``node``."""

    def __init__(self, compiler: _Compiler, node: Node, place: Place) -> None:
        self._compiler, self._node, self._place = compiler, node, place
        self._content: Mapping[str, Any] = place.content
        self._draft = place.draft

    def add_all(self) -> None:
        """Add the checks of all keywords of the draft."""
        self._add_references()
        if self._draft <= 7 and "$ref" in self._content:
            return  # the other keywords have no effect
        self._add_scalars()
        self._add_combinations()
        self._add_objects()
        self._add_arrays()
        for name, kind in (("unevaluatedProperties", dict), ("unevaluatedItems", list)):
            if self._draft > 7 and name in self._content:
                self._node.collects = True
                self._node.add(containers.unevaluated(name, self._inner(self._content[name])), kind)

    def _inner(self, content: Any) -> Node:
        return self._compiler.node(self._place.of(content))

    def _in_place(self, content: Any) -> Node:
        """The node of another schema for the same value."""
        node = self._inner(content)
        self._node.in_place.append(node)
        return node

    def _since(self, draft: int, name: str) -> Any:
        """The value of a keyword that there is since a draft; ``None`` if it is absent."""
        return self._content.get(name) if self._draft >= draft else None

    def _add_references(self) -> None:
        keywords = ["$ref", *(["$recursiveRef"] if self._draft == 2019 else [])]
        keywords += ["$dynamicRef"] if self._draft == 2020 else []
        for keyword in keywords:
            if keyword in self._content:
                target = self._compiler.target(keyword, self._place)
                self._node.in_place.append(target)
                self._node.add(target.check_once)

    def _add_scalars(self) -> None:
        content, add = self._content, self._node.add
        if "type" in content:
            names = content["type"] if isinstance(content["type"], list) else [content["type"]]
            scalars.add_types(self._node, names, is_draft_4=self._draft == 4)
        if "enum" in content:
            add(scalars.one_of_values("enum", content["enum"]))
        if self._draft >= 6 and "const" in content:
            add(scalars.one_of_values("const", [content["const"]]))
        if "pattern" in content:
            add(_with_pattern(scalars.pattern, content["pattern"]), str)
        if content.get("uniqueItems") is True:
            add(scalars.unique_items, list)
        self._add_limits()

    def _add_limits(self) -> None:
        content, add = self._content, self._node.add
        for name, bound in self._bounds():
            add(scalars.limit(name, bound), *scalars.NUMBERS)
        if "multipleOf" in content:
            add(scalars.multiple_of(_number(content["multipleOf"])), *scalars.NUMBERS)
        for name, kind in scalars.LENGTHS.items():
            if name in content:
                add(scalars.length(name, int(_number(content[name]))), kind)

    def _bounds(self) -> Iterator[tuple[str, Decimal]]:
        """Yield the bounds of numbers; in draft 4, a flag makes a bound exclusive."""
        for name in ("minimum", "maximum"):
            exclusive_name = f"exclusive{name.capitalize()}"
            if name in self._content:
                is_exclusive = self._draft == 4 and self._content.get(exclusive_name) is True
                yield exclusive_name if is_exclusive else name, _number(self._content[name])
            if self._draft > 4 and exclusive_name in self._content:
                yield exclusive_name, _number(self._content[exclusive_name])

    def _add_combinations(self) -> None:
        content, add = self._content, self._node.add
        for inner in content.get("allOf", ()):
            add(self._in_place(inner).check)
        for name in ("anyOf", "oneOf"):
            if name in content:
                nodes = [self._in_place(inner) for inner in content[name]]
                add(containers.some_of(name, nodes, is_exclusive=name == "oneOf"))
        if "not" in content:
            add(containers.negation(self._in_place(content["not"])))
        if self._draft >= 7 and "if" in content:
            parts = [self._in_place(content[name]) if name in content else None for name in ("then", "else")]
            add(containers.condition(self._in_place(content["if"]), *parts))

    def _add_objects(self) -> None:
        content, add = self._content, self._node.add
        if "required" in content:
            add(containers.required(content["required"]), dict)
        by_name = {name: self._inner(inner) for name, inner in content.get("properties", {}).items()}
        by_pattern = [
            (_with_pattern(Pattern, pattern), self._inner(inner))
            for pattern, inner in content.get("patternProperties", {}).items()
        ]
        other_node = self._inner(content["additionalProperties"]) if "additionalProperties" in content else None
        if other_node and content["additionalProperties"] is False:
            other_node = Node()
            other_node.add(containers.nothing("additionalProperties"))
        if by_pattern:
            add(containers.fields_by_pattern(by_name, by_pattern, other_node), dict)
        elif by_name or other_node:
            add(containers.fields(by_name, other_node), dict)
        if self._draft >= 6 and "propertyNames" in content:
            add(containers.field_names(self._inner(content["propertyNames"])), dict)
        names = ["dependencies"] if self._draft <= 7 else ["dependentRequired", "dependentSchemas"]
        for name in names:
            for trigger, dependency in content.get(name, {}).items():
                is_list = isinstance(dependency, list)
                required = containers.required(dependency, name, trigger) if is_list else None
                add(required or containers.dependent_schema(trigger, self._in_place(dependency)), dict)

    def _add_arrays(self) -> None:
        content, add = self._content, self._node.add
        items = content.get("items")
        other_name = "items" if self._draft == 2020 or not isinstance(items, list) else "additionalItems"
        first = items if isinstance(items, list) else self._since(2020, "prefixItems") or []
        other_node = self._inner(content[other_name]) if other_name in content else None
        if first or other_node:
            add(containers.items([self._inner(inner) for inner in first], other_node), list)
        if self._draft >= 6 and "contains" in content:
            min_count, max_count = self._since(2019, "minContains"), self._since(2019, "maxContains")
            bounds = (
                1 if min_count is None else int(_number(min_count)),
                None if max_count is None else int(_number(max_count)),
            )
            node = self._inner(content["contains"])
            add(containers.contains(node, *bounds, evaluates=self._draft == 2020), list)


def _number(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        raise UnusableSchemaError(f"it has {str(value)[:60]} in place of a number that can be represented")
    return value


def _with_pattern(create: Callable[[str], T], text: str) -> T:
    """Create something of a pattern; raises ``UnusableSchemaError`` if it cannot be used."""
    try:
        return create(text)
    except PatternError as error:
        raise UnusableSchemaError(f"its pattern {text[:150]!a} cannot be used: {error}") from None
