"""The regular expressions of ECMA 262, which JSON Schema uses, for an engine that matches them in linear time.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re

MAX_STEPS = 2_000
"""Characters and classes of a pattern, each counted as often as it is repeated."""
_ESCAPE = (
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}"
    r"|\\x[0-9a-fA-F]{2}|\\[pP]\{[^}]*\}|\\c[A-Za-z]|\\[0-9]+|\\."
)
_IN_CLASS = re.compile(f"{_ESCAPE}|.", re.DOTALL)
_SYMBOL = re.compile(
    rf"{_ESCAPE}|\[\^?(?:\\.|[^\]\\])*\]|\(\?(?::|<[A-Za-z_][A-Za-z_0-9]*>)?|\{{[0-9]+(?:,[0-9]*)?\}}|.", re.DOTALL
)
_NOT_LINEAR = re.compile(r"\(\?|\\[kbB]|\\[0-9]{2,}|\\[1-9]")
_TRANSLATED = {".": "[^\n\r\u2028\u2029]", "[^]": r"[\s\S]", "{": r"\{", "}": r"\}", "]": r"\]", r"\0": r"\x00"}
_SETS = frozenset({r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"})


class PatternError(ValueError):
    """A pattern cannot be used; the message says why."""


def translate(pattern: str) -> tuple[str, int]:
    """Return a pattern in the engine's syntax, and its number of steps; raises ``PatternError`` if it is not linear."""
    pieces, sizes, last_size = list[str](), [0], 0
    for symbol in _SYMBOL.findall(pattern):
        if _NOT_LINEAR.fullmatch(symbol):
            raise PatternError("it has a look-around, a back-reference, a word boundary or a flag")
        if symbol.startswith("("):
            sizes.append(0)
        elif symbol == ")" and len(sizes) > 1:
            last_size = max(1, sizes.pop())
            sizes[-1] += last_size
        elif symbol.startswith("{") and len(symbol) > 1:
            last_size, former_size = last_size * _repetitions(symbol), last_size
            sizes[-1] += last_size - former_size
        elif symbol not in "*+?|^$":
            last_size = 1
            sizes[-1] += 1
        if sizes[-1] > MAX_STEPS:
            raise PatternError(f"it has more than {MAX_STEPS} steps")
        pieces.append(_translated_class(symbol) if symbol[0] == "[" and len(symbol) > 3 else _translated(symbol))
    return "".join(pieces), sum(sizes)


def _repetitions(symbol: str) -> int:
    """The most repetitions that a symbol such as ``{2,4}`` asks for; without an end, one more than the least."""
    minimum, _, maximum = symbol[1:-1].partition(",")
    if max(len(minimum), len(maximum)) > 6:
        raise PatternError(f"it has more than {MAX_STEPS} steps")
    return max(1, int(maximum or minimum) + symbol.endswith(",}"))


def _translated(symbol: str) -> str:
    if len(symbol) == 12:  # both halves of a surrogate pair
        return f"\\u{{{0x10000 + (int(symbol[2:6], 16) - 0xD800) * 0x400 + int(symbol[8:], 16) - 0xDC00:x}}}"
    if symbol.startswith(r"\c"):
        return f"\\x{ord(symbol[2:] or ' ') % 32:02x}" if len(symbol) == 3 else symbol
    return _TRANSLATED.get(symbol, symbol)


def _translated_class(symbol: str) -> str:
    start = "[^" if symbol.startswith("[^") else "["
    pieces, former_symbol = list[str](), ""
    for inner in _IN_CLASS.findall(symbol[len(start) : -1]):
        is_plain_hyphen = inner == "-" and former_symbol in _SETS
        pieces.append(r"\-" if is_plain_hyphen else r"\x08" if inner == r"\b" else _in_class(inner))
        former_symbol = inner
    return f"{start}{''.join(pieces)}]"


def _in_class(symbol: str) -> str:
    if re.fullmatch(r"\\[0-9]{2,}|\\[1-9]", symbol):
        raise PatternError("it has an octal escape")
    return r"\[" if symbol == "[" else symbol if symbol in (".", "{", "}") else _translated(symbol)
