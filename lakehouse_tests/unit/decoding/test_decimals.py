"""Decimals of every precision and scale, compared with exact arithmetic on integers and fractions."""

import decimal
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.declaration import Column
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import decode

TYPES = st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision)))


def store_number(number: str, type_: str, **rules: object) -> Decimal | str:
    """The value of a number in a column, or the reason why its record is rejected."""
    field = Column("n", type_, "A number.", **rules).field  # type: ignore[arg-type]
    try:
        return decode(f'{{"n":{number}}}'.encode(), (field,))["n"]
    except Rejection as rejection:
        return rejection.reason


def expected(exact: Fraction, precision: int, scale: int) -> tuple[int, int] | str:
    """The rounded number in units of its last place, and its scale; ties away from zero."""
    units = abs(exact) * 10**scale
    whole_number = (2 * units.numerator + units.denominator) // (2 * units.denominator)
    if whole_number >= 10**precision:
        return "out_of_range"
    return (-whole_number if exact < 0 else whole_number), scale


def in_units(value: Decimal | str) -> tuple[int, int] | str:
    if isinstance(value, str):
        return value
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole_number = int("".join(map(str, digits)))
    assert whole_number or not sign, "zero has no sign"
    return (-whole_number if sign else whole_number), -exponent


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Numbers as JSON may write them; ties and numbers close to them occur often."""
    sign, whole_number = draw(st.sampled_from(["", "-"])), draw(st.integers(0, 10 ** draw(st.integers(0, 40))))
    parts = st.sampled_from(["5", "49", "50", "51", "9" * 40, "0" * 40 + "1", "5" + "0" * 60 + "1", "4" + "9" * 60])
    near_ties = st.tuples(st.text("059", max_size=38), parts).map("".join)
    places = draw(st.text("0123456789", max_size=40) | parts | near_ties)
    exponent = draw(st.sampled_from(["", "e0"]) | st.integers(-60, 60).map("e{}".format))
    return f"{sign}{whole_number}{'.' * bool(places)}{places}{exponent}"


@pytest.mark.invariant("13.1")
@settings(deadline=None, max_examples=1000)
@given(numbers(), TYPES)
@example("12345678901.5", (38, 18))
@example("99999999999999999999.999999999999999999", (38, 18))
@example("-99999999999999999999.9999999999999999995", (38, 18))
@example("12345678901234567890123456789012345678", (38, 0))
@example("0.00000000000000000000000000000000000001", (38, 38))
@example("-0", (38, 38))
@example("0e60", (1, 1))
def test_every_decimal_is_rounded_as_exact_arithmetic_rounds_it(number: str, type_: tuple[int, int]) -> None:
    precision, scale = type_
    units = in_units(store_number(number, f"DECIMAL({precision},{scale})"))
    assert units == expected(Fraction(number), precision, scale)


@pytest.mark.parametrize(
    ("number", "type_", "result"),
    [
        ("1e999999999", "DECIMAL(38,18)", "out_of_range"),
        ("1e999999999999999999", "DECIMAL(38,18)", "out_of_range"),
        ("-1e999999999999999999999", "DECIMAL(38,18)", "out_of_range"),
        ("1e-999999999", "DECIMAL(38,18)", Decimal("0E-18")),
        ("1e-999999999999999999999", "DECIMAL(38,18)", "out_of_range"),
        ("0e999999999", "DECIMAL(38,18)", Decimal("0E-18")),
        ("1e999999999", "BIGINT", "out_of_range"),
        ("1e-999999999", "BIGINT", "wrong_type"),
        ("0e999999999", "BIGINT", 0),
        ("0e30", "INT", 0),
        ("1e999999999", "DOUBLE", "out_of_range"),
        ("1e-999999999", "DOUBLE", 0.0),
        ("0e999999999", "DOUBLE", 0.0),
    ],
)
def test_a_number_with_a_huge_exponent_is_decided_without_writing_its_digits(
    number: str, type_: str, result: object
) -> None:
    assert store_number(number, type_) == result


@pytest.mark.invariant("13.1")
def test_decimals_do_not_depend_on_the_context_of_the_caller() -> None:
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_DOWN, Emax=9, Emin=-9, traps=[])):
        assert (
            str(store_number("12345678901.5555555555555555555", "DECIMAL(38,18)")) == "12345678901.555555555555555556"
        )
        assert store_number("1e999999999999999999999", "DECIMAL(38,18)") == "out_of_range"
        assert str(store_number("-0.0000004", "DECIMAL(9,6)")) == "0.000000"
        assert store_number("12345.0", "BIGINT") == 12345


def test_a_bound_of_a_decimal_is_the_number_that_was_declared() -> None:
    """As a binary fraction 0.1 is a little more than 0.1, so 0.1 in a record would be below it."""
    assert store_number("0.1", "DECIMAL(9,2)", between=(0.1, 0.3)) == Decimal("0.10")
    assert store_number("0.3", "DECIMAL(9,2)", between=(0.1, 0.3)) == Decimal("0.30")
    assert store_number("0.31", "DECIMAL(9,2)", between=(0.1, 0.3)) == "out_of_range"
