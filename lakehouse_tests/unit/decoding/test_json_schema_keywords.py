"""Generated schemas and values: the check agrees with the package jsonschema, and patterns with those of Python."""

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import validators

from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError
from lakehouse.decoding.formats.json_schema.checks import Visit
from lakehouse.decoding.formats.json_schema.patterns import Pattern
from lakehouse.decoding.formats.json_schema.schemas import compiled, prepare
from lakehouse.decoding.json_parsing import parse_json

DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = st.sampled_from([None, True, False, 0, 1, -2, 3, 1.5, 2.0, "", "a", "ab", "b1"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
SIZES = st.integers(0, 3)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def keywords(inner: st.SearchStrategy[Any], draft: int) -> dict[str, st.SearchStrategy[Any]]:
    """The keywords of a draft, with strategies for their values."""
    schemas, maps = st.lists(inner, min_size=1, max_size=3), st.dictionaries(NAMES, inner, max_size=2)
    names, numbers = st.lists(NAMES, max_size=2, unique=True), st.sampled_from([0, 1, 1.5, 2])
    some_names = st.lists(NAMES, min_size=1, max_size=2, unique=True)
    options: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=4, unique_by=repr),
        **dict.fromkeys(("minimum", "maximum"), numbers),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), SIZES),
        "pattern": st.sampled_from(["^a", "b$", "^[ab]{2}$", "1|^$"]),
        "uniqueItems": st.booleans(),
        "required": names if draft > 4 else some_names,
        **dict.fromkeys(("properties", "definitions"), maps),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), schemas),
        **dict.fromkeys(("not", "additionalProperties"), inner),
        "items": inner if draft == 2020 else inner | schemas,
        "$ref": st.sampled_from(["#/definitions/a", "#/definitions/b"]),
    }
    if draft < 2020:
        options["additionalItems"] = inner
    if draft > 4:
        options |= {"const": VALUES, "contains": inner, "propertyNames": inner}
        options |= dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), numbers)
    if draft >= 7:
        options |= dict.fromkeys(("if", "then", "else"), inner)
    if draft <= 7:
        options["dependencies"] = st.dictionaries(NAMES, inner | some_names, max_size=2)
    else:
        options |= {"dependentSchemas": maps, "dependentRequired": st.dictionaries(NAMES, names, max_size=2)}
        options |= dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), inner)
        options |= dict.fromkeys(("minContains", "maxContains"), SIZES)
    if draft == 2020:
        options["prefixItems"] = schemas
    return options


def schemas(draft: int) -> st.SearchStrategy[Any]:
    """Schemas of a draft, some with keywords that need each other."""
    leaf = st.fixed_dictionaries({"type": TYPES}) | (st.booleans() if draft > 4 else st.fixed_dictionaries({}))

    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        options = keywords(inner, draft)
        return st.lists(st.sampled_from(sorted(options)), min_size=1, max_size=4, unique=True).flatmap(
            lambda names: st.fixed_dictionaries({name: options[name] for name in names})
        )

    return st.recursive(leaf, extend, max_leaves=5).filter(lambda schema: isinstance(schema, dict))


@pytest.mark.parametrize("draft", DRAFTS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_the_check_agrees_with_another_implementation(draft: int, data: st.DataObject) -> None:
    content = data.draw(schemas(draft))
    definitions = {"a": data.draw(schemas(draft)), "b": {"type": "string"}}
    if draft == 4 and "minimum" in content:
        content["exclusiveMinimum"] = data.draw(st.booleans())
    schema = {"$schema": DRAFTS[draft], **content, "definitions": definitions}
    try:
        node = compiled(prepare(RegisteredSchema(json.dumps(schema), (), "JSON")))
    except UnusableSchemaError as error:
        assume("itself" not in str(error))  # the other implementation would not end
        raise
    validator = validators.validator_for(schema)(schema)
    for value in data.draw(st.lists(VALUES, min_size=1, max_size=8)):
        text = json.dumps(value)
        assert (node.check(parse_json(text), Visit()) is None) is validator.is_valid(json.loads(text)), (schema, text)


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "[a-c1]", "^", "$"])


def patterns(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sequences, choices and repetitions of patterns."""
    groups = st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{''.join(parts)})")
    choices = st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
    repetitions = st.tuples(groups, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map("".join)
    return groups | choices | repetitions


@settings(max_examples=150, deadline=None)
@given(st.recursive(ATOMS, patterns, max_leaves=6), st.lists(st.text("ab1\n", max_size=6), min_size=1, max_size=6))
def test_patterns_match_what_those_of_python_match(pattern: str, texts: list[str]) -> None:
    """Except that $ is only the end in JSON Schema, and not also before a last line feed."""
    expression = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    compiled_pattern = Pattern(pattern)
    for text in texts:
        assert compiled_pattern.is_in(text) is bool(expression.search(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        (r"^\u00e9\x41\u{1F600}$", "\u00e9A\U0001f600", True),
        (r"^\ud83d\ude00$", "\U0001f600", True),
        (r"^.$", "\u2028", False),
        (r"^\s$", "\ufeff", True),
        (r"^\d$", "\u0663", False),
        (r"^\p{Lu}\P{L}$", "\u00c91", True),
        (r"^[\w-.]+$", "a-.", True),
        (r"^[^\s]\cJ\t\0$", "x\n\t\0", True),
        (r"^a{,2}$", "a{,2}", True),
        (r"^$", "\n", False),
        (r"[\b]", "\b", True),
    ],
)
def test_patterns_mean_what_ecma_262_says(pattern: str, text: str, is_match: bool) -> None:
    assert Pattern(pattern).is_in(text) is is_match
