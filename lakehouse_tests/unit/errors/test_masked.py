"""Quoted parts of an error are masked, no matter how long they are and how they are escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from lakehouse.errors import TableError
from lakehouse.errors.causes import mask_text
from lakehouse.errors.troubles import Trouble, find_trouble
from lakehouse.ledger.table_failures import log_failures

COUNT = 100_000
QUOTED = re.compile(r"(?<![\w])(?P<quote>['\"`])(?:\\.|(?!(?P=quote))[^\\])*(?P=quote)(?!\w)", re.DOTALL)
ESCAPED_QUOTES = "\\'" * COUNT
LONG_TEXTS = {
    "escaped quotes": ESCAPED_QUOTES,
    "backslashes": "\\" * 2 * COUNT,
    "quotes that open and never close": " '" * (COUNT // 2) + " 'a",
    "text similar to the scheme of a URL": "a+" * COUNT,
}


@given(st.text("'\"`\\a _\n", max_size=40))
def test_only_text_between_quotes_is_masked(text: str) -> None:
    """A pattern gives the same result, but is slow for long texts."""
    assert mask_text(text) == QUOTED.sub(lambda match: "_" * len(match[0]), text)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_a_long_text_is_masked_quickly(text: str) -> None:
    assert len(mask_text(text)) == len(text)
    assert find_trouble(PySparkException(text), [*Trouble]) is None


@pytest.mark.timeout(120)
def test_a_long_value_is_masked_and_the_text_around_it_decides() -> None:
    assert mask_text(ESCAPED_QUOTES) == ESCAPED_QUOTES, "all quotes are escaped, so none closes another"
    assert mask_text(f"no '{ESCAPED_QUOTES}' there") == f"no {'_' * (2 * COUNT + 2)} there"
    message = f"No space left on device: '{'No space left on device' * COUNT}'"
    assert find_trouble(PySparkException("x '" + "No space left on device " * COUNT + "'"), [*Trouble]) is None
    assert find_trouble(PySparkException(f"dns error {message}"), [*Trouble]) is Trouble.UNREACHABLE


@pytest.mark.timeout(120)
def test_a_long_error_of_a_log_is_shortened() -> None:
    with pytest.raises(TableError, match="cannot be read") as raised, log_failures("/t"):
        raise ValueError("a" * 2 * COUNT)
    assert len(str(raised.value)) < COUNT
