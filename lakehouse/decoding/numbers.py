"""Numbers, exactly: what is written becomes the nearest value of a type, or a reason why it does not."""

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from lakehouse.decoding.fields import WHOLE, Beyond, Field, Rejection, out_of_range, shown, wrong_type

# never the context of whoever calls, which rounds to 28 digits
_EXACTLY = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])


def as_written(number: str) -> Decimal | Beyond:
    """A number as JSON writes it, with every digit of it; a short one is made once, however often it is written."""
    return _SHORT[number] if len(number) <= _FEW else _number(number)


def _number(number: str) -> Decimal | Beyond:
    try:
        return Decimal(number, _EXACTLY)
    except InvalidOperation:
        return Beyond(number)


class _Made(dict[str, Decimal | Beyond]):
    def __missing__(self, number: str) -> Decimal | Beyond:
        self[number] = _number(number)
        return self[number]


_FEW = 4  # characters: there are not many such numbers, and each takes much more memory than it is written in
_SHORT = _Made()


def shifted(number: int, scale: int) -> Decimal:
    """A whole number of units of the last of so many places."""
    return _EXACTLY.scaleb(Decimal(number), -scale)


def exact_number(raw: Any, field: Field) -> Decimal:
    """The number as it is written; ``Rejection`` for what is none, or not finite."""
    if isinstance(raw, Beyond):
        raise Rejection("out_of_range", f"{field.source!r} is {shown(raw)}, beyond any number of ours")
    if not isinstance(raw, Decimal | float | int) or isinstance(raw, bool):
        wrong_type(raw, field)
    exact = Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    if not exact.is_finite():
        raise Rejection("not_finite", f"{field.source!r} is {raw}")
    return exact


def read_number(raw: Any, field: Field) -> int | float | Decimal:
    """Turn a number into one of the field's type; ``Rejection`` where it holds none such."""
    exact = exact_number(raw, field)
    if field.type in WHOLE:
        return whole(exact, field)
    if field.type == "DOUBLE":
        double = float(exact)
        # adding 0 turns -0.0 into 0.0: the two are equal, and which of them a minimum keeps would be chance
        return out_of_range(raw, field) if double in (float("inf"), float("-inf")) else double + 0.0
    return exact_decimal(exact, field)


def whole(exact: Decimal, field: Field) -> int:
    """A whole number that the type holds; that of days is an INT."""
    most = WHOLE.get(field.type, WHOLE["INT"])
    if (exact and exact.adjusted() > 20) or not -most <= exact < most:
        out_of_range(exact, field)
    return int(exact) if exact == exact.to_integral_value() else wrong_type(exact, field)


def exact_decimal(exact: Decimal, field: Field) -> Decimal:
    """Round to the scale of the field's type, ties away from zero: the one rule for decimal keys."""
    precision, scale = (int(part) for part in field.type[8:-1].split(","))
    return rounded(exact, precision, scale, field)


def rounded(exact: Decimal, precision: int, scale: int, field: Field) -> Decimal:
    """Round to so many places, ties away from zero; ``Rejection`` where it has more digits than allowed."""
    digits = Context(prec=precision, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
    try:
        return digits.plus(digits.quantize(exact, Decimal((0, (1,), -scale))))
    except InvalidOperation:
        return out_of_range(exact, field)
