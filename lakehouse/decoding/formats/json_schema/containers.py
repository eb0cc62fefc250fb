"""Keywords of JSON Schema about the fields of an object, the items of an array, and other schemas for the same value.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.decoding.fields import short_text
from lakehouse.decoding.formats.json_schema.checks import Evaluated, Keyword, Node, Violation, Visit
from lakehouse.decoding.formats.json_schema.patterns import Pattern

Result = Violation | None


def nothing(name: str) -> Keyword:
    """The schema ``false``, as the value of a keyword."""
    return lambda _, __, ___: Violation(name, "is not allowed")


def fields(by_name: Mapping[str, Node], other_node: Node | None) -> Keyword:
    """``properties``, and ``additionalProperties`` for the ``other_node``."""

    def check(value: dict[str, Any], visit: Visit, evaluated: Evaluated | None) -> Result:
        for name, inner in value.items():
            node = by_name.get(name, other_node)
            if node is None:
                continue
            violation = node.check(inner, visit) if node.keywords[type(inner)] else None
            if violation is not None:
                return violation.at(name)
            if evaluated is not None:
                evaluated.add(name)
        return None

    return check


def fields_by_pattern(
    by_name: Mapping[str, Node], by_pattern: Sequence[tuple[Pattern, Node]], other_node: Node | None
) -> Keyword:
    """Like ``fields``, with ``patternProperties``."""

    def nodes_of(name: str) -> list[Node]:
        nodes = [by_name[name]] if name in by_name else []
        nodes += [node for pattern, node in by_pattern if pattern.is_in(name)]
        return nodes or ([] if other_node is None else [other_node])

    def check(value: dict[str, Any], visit: Visit, evaluated: Evaluated | None) -> Result:
        for name, inner in value.items():
            nodes = nodes_of(name)
            for node in nodes:
                violation = node.check(inner, visit)
                if violation is not None:
                    return violation.at(name)
            if nodes and evaluated is not None:
                evaluated.add(name)
        return None

    return check


def required(names: Sequence[str], name_of_keyword: str = "required", trigger: str | None = None) -> Keyword:
    """``required``, or ``dependencies`` that are names, which count if the field ``trigger`` is there."""

    def check(value: dict[str, Any], _: Visit, __: Evaluated | None) -> Result:
        if trigger is None or trigger in value:
            for name in names:
                if name not in value:
                    return Violation(name_of_keyword, f"has no field {short_text(name)}")
        return None

    return check


def dependent_schema(trigger: str, node: Node) -> Keyword:
    """A schema that an object must meet if it has the field ``trigger``."""

    def check(value: dict[str, Any], visit: Visit, evaluated: Evaluated | None) -> Result:
        return node.check(value, visit, evaluated) if trigger in value else None

    return check


def field_names(node: Node) -> Keyword:
    """``propertyNames``."""

    def check(value: dict[str, Any], visit: Visit, _: Evaluated | None) -> Result:
        for name in value:
            violation = node.check(name, visit)
            if violation is not None:
                return Violation("propertyNames", f"has a name that {violation.message}")
        return None

    return check


def items(first: Sequence[Node], other_node: Node | None) -> Keyword:
    """A schema for each of the first items, and one for the ``other_node``."""

    def check(value: list[Any], visit: Visit, evaluated: Evaluated | None) -> Result:
        for place, item in enumerate(value):
            node = first[place] if place < len(first) else other_node
            if node is None:
                return None
            violation = node.check(item, visit)
            if violation is not None:
                return violation.at(place)
            if evaluated is not None:
                evaluated.add(place)
        return None

    return check


def contains(node: Node, min_count: int, max_count: int | None, *, evaluates: bool) -> Keyword:
    """``contains`` with ``minContains`` and ``maxContains``; ``evaluates``: the items that match count as evaluated."""

    def check(value: list[Any], visit: Visit, evaluated: Evaluated | None) -> Result:
        places = [place for place, item in enumerate(value) if node.check(item, visit) is None]
        if len(places) < min_count or (max_count is not None and len(places) > max_count):
            bound = f"at least {min_count}" if max_count is None else f"{min_count} to {max_count}"
            return Violation("contains", f"has {len(places)} items that match, expected {bound}")
        if evaluates and evaluated is not None:
            evaluated.update(places)
        return None

    return check


def unevaluated(name: str, node: Node) -> Keyword:
    """``unevaluatedProperties`` or ``unevaluatedItems``: a schema for what no other one has evaluated."""

    def check(value: Any, visit: Visit, evaluated: Evaluated | None) -> Result:
        steps = Evaluated() if evaluated is None else evaluated
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if step not in steps:
                violation = node.check(inner, visit)
                if violation is not None:
                    return Violation(name, violation.message).at(step)
                steps.add(step)
        return None

    return check


def some_of(name: str, nodes: Sequence[Node], *, is_exclusive: bool) -> Keyword:
    """``anyOf``, or ``oneOf`` if it ``is_exclusive``."""

    def check(value: Any, visit: Visit, evaluated: Evaluated | None) -> Result:
        violations, places = list[Violation](), list[int]()
        for place, node in enumerate(nodes):
            collected = None if evaluated is None else Evaluated()
            violation = node.check(value, visit, collected)
            if violation is not None:
                violations.append(violation)
                continue
            places.append(place)
            if evaluated is not None and collected is not None:
                evaluated |= collected
            if is_exclusive and len(places) > 1:
                return Violation(name, f"meets the schemas {places[0]} and {place}, expected one")
            if not is_exclusive and evaluated is None:
                return None
        return None if places else _likely(name, violations)

    return check


def _likely(name: str, violations: Sequence[Violation]) -> Violation:
    """What is wrong by the one schema that is for values of this type, if there is only one."""
    likely_violations = [violation for violation in violations if violation.path or violation.keyword != "type"]
    if len(likely_violations) == 1:
        return likely_violations[0]
    return Violation(name, f"meets none of {len(violations)} schemas; of the last one, it {violations[-1].message}")


def negation(node: Node) -> Keyword:
    """``not``."""

    def check(value: Any, visit: Visit, _: Evaluated | None) -> Result:
        return None if node.check(value, visit) else Violation("not", "meets a schema that it must not meet")

    return check


def condition(if_node: Node, then_node: Node | None, else_node: Node | None) -> Keyword:
    """``if`` with ``then`` and ``else``."""

    def check(value: Any, visit: Visit, evaluated: Evaluated | None) -> Result:
        collected = None if evaluated is None else Evaluated()
        is_met = if_node.check(value, visit, collected) is None
        if is_met and evaluated is not None and collected is not None:
            evaluated |= collected
        node = then_node if is_met else else_node
        return None if node is None else node.check(value, visit, evaluated)

    return check
