"""What keywords of JSON Schema mean: all drafts, numbers with all of their digits, and patterns of ECMA 262."""

import json
import re
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError
from lakehouse.decoding.formats.json_schema.schemas import prepare, record_check
from lakehouse.decoding.json_parsing import parse_json

DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema",
    7: "https://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
NO_REFERENCES: dict[str, str] = {}


def is_met(schema: Any, *values: str, draft: int = 7, references: Mapping[str, str] = NO_REFERENCES) -> list[bool]:
    """Whether each value, a text of JSON, meets a schema, which is a text too or an object."""
    content = schema if isinstance(schema, str) else json.dumps({"$schema": DRAFTS[draft], **schema})
    check = record_check(prepare(RegisteredSchema(content, (), "JSON", tuple(references.items())))).check
    return [is_accepted(check, value) for value in values]


def is_accepted(check: Any, value: str) -> bool:
    try:
        check(parse_json(value), len(value))
    except Rejection as rejection:
        return rejection.reason != "schema_violation"
    return True


CASES: list[tuple[str, dict[str, Any], list[str], dict[int, list[bool]]]] = [
    ("integer", {"type": "integer"}, ["1", "1.0", "1.5"], {4: [True, False, False], 6: [True, True, False]}),
    ("exclusive flag", {"minimum": 1, "exclusiveMinimum": True}, ["1", "2"], {4: [False, True]}),
    ("exclusive bound", {"exclusiveMinimum": 1}, ["1", "1.1"], {6: [False, True]}),
    ("const", {"const": 1}, ["1.0", "true", '"1"'], {4: [True] * 3, 6: [True, False, False]}),
    ("contains", {"contains": {"type": "null"}}, ["[]", "[null]"], {4: [True, True], 6: [False, True]}),
    ("condition", {"if": {"type": "null"}, "then": False}, ["1", "null"], {4: [True, True], 7: [True, False]}),
    ("sibling of a reference", {"$ref": "#/definitions/a", "type": "null", "definitions": {"a": {}}}, ["1"],
     {4: [True], 2019: [False]}),
    ("list of items", {"items": [{"type": "null"}], "additionalItems": False}, ["[null]", "[1]", "[null, 1]"],
     {4: [True, False, False]}),
    ("prefix of items", {"prefixItems": [{"type": "null"}], "items": False}, ["[null]", "[1]", "[null, 1]"],
     {2020: [True, False, False]}),
    ("dependencies", {"dependencies": {"a": ["b"]}}, ['{"a": 1}', '{"a": 1, "b": 1}'], {4: [False, True]}),
    ("required by another field", {"dependentRequired": {"a": ["b"]}}, ['{"a": 1}'], {4: [True], 2019: [False]}),
    ("unevaluated fields", {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
     ['{"a": 1}', '{"b": 1}'], {4: [True, True], 2019: [True, False]}),
    ("evaluated items", {"contains": {"type": "null"}, "unevaluatedItems": False}, ["[null]", "[null, 1]"],
     {2019: [True, False]}),
    ("annotations", {"format": "date", "contentEncoding": "base64", "contentMediaType": "application/json"}, ['"{"'],
     {4: [True]}),
    ("names", {"propertyNames": {"maxLength": 1}}, ['{"ab": 1}'], {4: [True], 6: [False]}),
]  # fmt: skip


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_keyword_has_its_meaning_since_a_draft(case: Any, draft: int) -> None:
    _, schema, values, since = case
    drafts = [first_draft for first_draft in since if first_draft <= draft]
    if (draft == 2020 and isinstance(schema.get("items"), list)) or (
        draft > 4 and schema.get("exclusiveMinimum") is True
    ):
        with pytest.raises(UnusableSchemaError):
            is_met(schema, draft=draft)
    elif drafts:
        assert is_met(schema, *values, draft=draft) == since[max(drafts)]


def test_a_dynamic_reference_means_the_outermost_schema_with_its_anchor() -> None:
    tree = {"$dynamicAnchor": "node", "$id": "tree", "properties": {"inner": {"$dynamicRef": "#node"}}}
    strict = {"$id": "strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": False}
    values = ['{"inner": {"inner": {}}}', '{"inner": {"other": 1}}', '{"other": 1}']
    assert is_met({**strict, "$defs": {"tree": tree}}, *values, draft=2020) == [True, False, False]
    assert is_met(tree, *values, draft=2020) == [True, True, True]
    recursive: dict[str, Any] = {"$recursiveAnchor": True}
    tree_2019 = {**recursive, "$id": "http://x.test/tree", "properties": {"inner": {"$recursiveRef": "#"}}}
    strict_2019 = {**recursive, "$ref": "http://x.test/tree", "unevaluatedProperties": False}
    assert is_met({**strict_2019, "$defs": {"tree": tree_2019}}, *values, draft=2019) == [True, False, False]


def test_references_of_a_registry_are_known_by_their_names_also_with_an_address_of_their_own() -> None:
    part = '{"$id": "urn:part", "definitions": {"n": {"type": "null"}}, "$schema": "http://json-schema.org/draft-04/schema"}'
    list_text = '{"items": {"$ref": "a part.json#/definitions/n"}}'
    for own_id in ({}, {"$id": "urn:whole"}, {"$id": "http://x.test/whole"}):
        schema = {**own_id, "properties": {"a": {"$ref": "a part.json#/definitions/n"}, "b": {"$ref": "other"}}}
        references = {"a part.json": part, "other": list_text}
        values = ['{"a": null, "b": [null]}', '{"a": 1}', '{"b": [1]}']
        assert is_met(schema, *values, references=references) == [True, False, False]


@pytest.mark.parametrize("place", ["$defs", "definitions", "components"])
def test_a_schema_means_the_same_in_any_keyword_that_a_reference_leads_into(place: str) -> None:
    part = {"contentEncoding": "base64", "pattern": "^a.$", "maxLength": 2}
    schema = {"properties": {"a": {"$ref": f"#/{place}/b"}}, place: {"b": part}}
    values = ['{"a": "a!"}', '{"a": "a\\r"}', '{"a": "b!"}']
    assert is_met(schema, *values) == [True, False, False]


def test_what_no_reference_reaches_may_be_unusable() -> None:
    unused = {
        "a": {"$ref": "http://127.0.0.1:1/gone"},
        "b": {"pattern": "(?!x)"},
        "c": {"anyOf": [{"$ref": "#/definitions/c"}]},
    }
    assert is_met({"type": "null", "definitions": unused, "": {}}, "null", "1") == [True, False]


def test_halves_of_surrogate_pairs_are_characters_and_equal_only_to_themselves() -> None:
    half, other_half = '"\\ud800"', '"\\udfff"'
    assert is_met({"maxLength": 1, "pattern": "^.$"}, half, f'"a{half[1:]}') == [True, False]
    assert is_met(f'{{"enum": [{half}]}}', half, other_half) == [True, False]
    assert is_met({"uniqueItems": True}, f"[{half}, {other_half}]", f"[{half}, {half}]") == [True, False]
    assert is_met(f'{{"properties": {{{half}: false}}}}', f"{{{half}: 1}}", f"{{{other_half}: 1}}") == [False, True]
    assert is_met({"additionalProperties": False}, f"{{{half}: 1}}") == [False]


def test_numbers_that_cannot_be_represented_are_the_nearest_that_can() -> None:
    huge, tiny = "1e99999999999999999999", "-1e-99999999999999999999"
    assert is_met({"type": "integer", "minimum": 5}, huge, f"-{huge}", tiny) == [True, False, False]
    assert is_met({"maximum": 0, "type": "number"}, huge, tiny, "0e99999999999999999999") == [False, True, True]
    assert is_met({"not": {"properties": {"a": {"type": "number"}}}}, f'{{"a": {huge}}}') == [False]
    assert is_met({"type": "array"}, huge) == [False]


SMALL = st.sampled_from(["0", "1e-30", "-1e-30", "0.5", "1e-400", "1", "-1e-17"]).map(Decimal)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False) | st.integers(-(10**40), 10**40).map(Decimal) | SMALL


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.integers(0, 10**20), SMALL)
def test_numbers_are_compared_with_all_of_their_digits(bound: Decimal, factor: int, difference: Decimal) -> None:
    context = Context(prec=2_000)
    number = context.add(context.multiply(bound, Decimal(factor)), difference)
    divisor = max(abs(bound), Decimal(1))
    schema = {
        "minimum": number >= bound, "maximum": number <= bound, "exclusiveMinimum": number > bound,
        "exclusiveMaximum": number < bound, "const": number == bound,
    }  # fmt: skip
    for keyword, expected in schema.items():
        assert is_met(f'{{"{keyword}": {bound}}}', str(number)) == [expected], keyword
    assert is_met(f'{{"multipleOf": {divisor}}}', str(number)) == [Fraction(number) % Fraction(divisor) == 0]
    assert is_met({"type": "integer"}, str(number)) == [Fraction(number).denominator == 1]
    assert is_met({"uniqueItems": True}, f"[{number}, {bound}]") == [number != bound]


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "[a-c1]", "[\\d-b]", "{", "^", "$"])


def patterns(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sequences, choices and repetitions of patterns."""
    groups = st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{''.join(parts)})")
    choices = st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
    repetitions = st.tuples(groups, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map("".join)
    return groups | choices | repetitions


@settings(max_examples=150, deadline=None)
@given(st.recursive(ATOMS, patterns, max_leaves=6), st.lists(st.text("ab1-\n\r", max_size=6), min_size=1, max_size=6))
def test_patterns_match_what_those_of_python_match(pattern: str, texts: list[str]) -> None:
    """Except that $ is only the end in JSON Schema, and not also before a last line feed."""
    expression = re.compile(pattern.replace("$", r"\Z").replace(".", "[^\n\r]").replace("\\d-", "\\d\\-"), re.ASCII)
    assert is_met({"pattern": pattern}, *map(json.dumps, texts)) == [bool(expression.search(text)) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        (r"^\u00e9\x41\u{1F600}$", "\u00e9A\U0001f600", True),
        (r"^\ud83d\ude00[\ud83d\ude00]$", "\U0001f600\U0001f600", True),
        (r"^.$", "\u2028", False),
        (r"^[.]$", "\r", False),
        (r"^[^]$", "\r", True),
        (r"^\s$", "\ufeff", True),
        (r"^\S$", "\u0085", True),
        (r"^\d$", "\u0663", False),
        (r"^\W$", "\u00e9", True),
        (r"^\p{Lu}\P{L}$", "\u00c91", True),
        (r"^[\p{L}\p{N} .,'-]{1,100}$", "\u00c91 x", True),
        (r"^[\w-.]+$", "a-.", True),
        (r"^[^\s]\cJ\t\0$", "x\n\t\0", True),
        (r"^a{,2}$", "a{,2}", True),
        (r"^{[0-9a-f]{2}}$", "{0f}", True),
        (r"^$", "\n", False),
        (r"[\b]", "\b", True),
        (r"^(?<year>\d{4})-(?:\d\d)$", "2026-11", True),
        (r"^[[&&a]$", "&", True),
    ],
)
def test_patterns_mean_what_ecma_262_says(pattern: str, text: str, is_match: bool) -> None:
    assert is_met({"pattern": pattern}, json.dumps(text)) == [is_match]
    assert is_met({"patternProperties": {pattern: False}}, json.dumps({text: 1})) == [not is_match]
