"""What an error quotes is masked, however long it is and however it is escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from lakehouse.errors import TableError
from lakehouse.errors.causes import masked
from lakehouse.errors.troubles import Trouble, trouble_of
from lakehouse.ledger.table_failures import log_failures

MANY = 100_000
QUOTED = re.compile(r"(?<![\w])(?P<mark>['\"`])(?:\\.|(?!(?P=mark))[^\\])*(?P=mark)(?!\w)", re.DOTALL)
ESCAPED = "\\'" * MANY
LONG = {
    "escaped quotes": ESCAPED,
    "backslashes": "\\" * 2 * MANY,
    "quotes that open and never close": " '" * (MANY // 2) + " 'a",
    "something like the schemes of addresses": "a+" * MANY,
}


@given(st.text("'\"`\\a _\n", max_size=40))
def test_what_is_between_quotes_is_masked_and_nothing_else(text: str) -> None:
    """A pattern says so as well, but takes long for much text."""
    assert masked(text) == QUOTED.sub(lambda found: "_" * len(found[0]), text)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_much_text_is_masked_while_somebody_waits(text: str) -> None:
    assert len(masked(text)) == len(text)
    assert trouble_of(PySparkException(text), [*Trouble]) is None


@pytest.mark.timeout(120)
def test_a_long_value_stays_masked_and_what_is_said_of_it_counts() -> None:
    assert masked(ESCAPED) == ESCAPED, "each of them is escaped: none closes what another opened"
    assert masked(f"no '{ESCAPED}' there") == f"no {'_' * (2 * MANY + 2)} there"
    said = f"No space left on device: '{'No space left on device' * MANY}'"
    assert trouble_of(PySparkException("x '" + "No space left on device " * MANY + "'"), [*Trouble]) is None
    assert trouble_of(PySparkException(f"dns error {said}"), [*Trouble]) is Trouble.UNREACHABLE


@pytest.mark.timeout(120)
def test_an_error_of_a_log_that_says_much_is_told_in_short() -> None:
    with pytest.raises(TableError, match="cannot be read") as told, log_failures("/t"):
        raise ValueError("a" * 2 * MANY)
    assert len(str(told.value)) < MANY
