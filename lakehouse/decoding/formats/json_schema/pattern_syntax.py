"""Read a regular expression of ECMA 262, which JSON Schema uses, into steps of an automaton.

Only what an automaton can match in linear time is read: no look-around, no back-references, no word boundaries.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple, NoReturn

Matches = Callable[[str], bool]
"""Whether a character is one of a set."""
_MAX_STEPS = 2_000
_MAX_GROUPS = 50  # within each other
_BOUNDS = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_CODES = re.compile(r"u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})")
_CATEGORY = re.compile(r"[pP]\{(?:gc=|General_Category=)?([A-Z][a-z]?)\}")
_GROUP = re.compile(r"\?(?::|<[A-Za-z_]\w*>)", re.ASCII)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_SPACES = frozenset("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | {
    chr(0x2000 + n) for n in range(11)
}
_LINE_ENDS = frozenset("\n\r\u2028\u2029")
_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SETS = {"d": _DIGITS, "w": _WORD, "s": _SPACES}


class PatternError(ValueError):
    """A pattern cannot be used; the message says why."""


class Step(NamedTuple):
    """One step of an automaton: it consumes a character that ``matches``, or nothing, and continues at ``followers``.

    ``anchor`` is ``^`` or ``$`` if it can only be taken at the start or the end of a text.
    """

    followers: tuple[int, ...]
    matches: Matches | None = None
    anchor: str = ""


Fragment = Callable[[int], int]
"""Add the steps of a part of a pattern in front of a step; returns the first of them."""


class PatternReader:
    """Reads one pattern; ``steps[0]`` is the end, and ``start`` the first step."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._pos, self._depth, self._size = pattern, 0, 0, 0
        self.steps = [Step(())]
        fragment = self._alternatives()
        if self._pos < len(pattern):
            self._fail("an unmatched )")
        self.start = fragment(0)

    def _fail(self, what: str) -> NoReturn:
        raise PatternError(f"{what} at character {self._pos}")

    def _peek(self) -> str:
        return self._pattern[self._pos : self._pos + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            self._fail("it ends early")
        self._pos += 1
        return char

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        self._count()
        return len(self.steps) - 1

    def _count(self) -> None:
        """Count a step, or a repetition of a part, which may have none."""
        self._size += 1
        if self._size > _MAX_STEPS:
            raise PatternError(f"it has more than {_MAX_STEPS} steps")

    def _alternatives(self) -> Fragment:
        options = [self._sequence()]
        while self._peek() == "|":
            self._pos += 1
            options.append(self._sequence())
        if len(options) == 1:
            return options[0]
        return lambda end: self._add(Step(tuple(option(end) for option in options)))

    def _sequence(self) -> Fragment:
        parts = list[Fragment]()
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(*self._atom()))

        def build(end: int) -> int:
            for part in reversed(parts):
                end = part(end)
            return end

        return build

    def _atom(self) -> tuple[Fragment, bool]:
        """Return a part, and whether it may be repeated."""
        char = self._take()
        if char in "^$":
            return (lambda end: self._add(Step((end,), anchor=char))), False
        if char == "(":
            return self._group(), True
        if char in "*+?":
            self._pos -= 1
            self._fail("nothing to repeat")
        matches = self._set_of(char)
        return (lambda end: self._add(Step((end,), matches))), True

    def _set_of(self, char: str) -> Matches:
        if char == ".":
            return lambda text: text not in _LINE_ENDS
        if char == "[":
            return self._class()
        if char == "\\":
            return _as_set(self._escape(is_in_class=False))
        return _as_set(char)

    def _group(self) -> Fragment:
        if self._peek() == "?":
            kind = _GROUP.match(self._pattern, self._pos)
            if not kind:
                self._fail("a look-around or another group that is not supported")
            self._pos = kind.end()
        self._depth += 1
        if self._depth > _MAX_GROUPS:
            self._fail("too many groups within each other")
        fragment = self._alternatives()
        self._depth -= 1
        if self._peek() != ")":
            self._fail("a missing )")
        self._pos += 1
        return fragment

    def _repeated(self, part: Fragment, is_repeatable: bool) -> Fragment:
        char = self._peek()
        bounds = _BOUNDS.match(self._pattern, self._pos) if char == "{" else None
        if bounds:
            self._pos, min_count = bounds.end(), int(bounds[1])
            max_count = int(bounds[3]) if bounds[3] else None if bounds[2] else min_count
        elif char and char in "*+?":
            self._pos += 1
            min_count, max_count = int(char == "+"), 1 if char == "?" else None
        else:
            return part
        if not is_repeatable or (max_count is not None and max_count < min_count):
            self._fail("a wrong repetition")
        self._pos += self._peek() == "?"  # the shortest match or the longest: there is one, or none
        if self._peek() in ("*", "+", "?"):
            self._fail("nothing to repeat")
        return lambda end: self._repeat(part, min_count, max_count, end)

    def _repeat(self, part: Fragment, min_count: int, max_count: int | None, end: int) -> int:
        if max_count is None:
            loop = self._add(Step(()))
            self.steps[loop] = Step((part(loop), end))
            start = loop
        else:
            start = end
            for _ in range(max_count - min_count):
                self._count()
                start = self._add(Step((part(start), end)))
        for _ in range(min_count):
            self._count()
            start = part(start)
        return start

    def _class(self) -> Matches:
        is_negated = self._peek() == "^"
        self._pos += is_negated
        members = list[Matches]()
        while self._peek() != "]":
            first = self._class_member()
            if self._peek() == "-" and self._pattern[self._pos + 1 : self._pos + 2] not in ("]", ""):
                self._pos += 1
                members += self._range(first, self._class_member())
            else:
                members.append(_as_set(first))
        self._pos += 1
        return lambda text: any(matches(text) for matches in members) is not is_negated

    def _range(self, first: str | Matches, last: str | Matches) -> list[Matches]:
        """The characters between two; if one of them is a set, the two and a hyphen."""
        if not isinstance(first, str) or not isinstance(last, str):
            return [_as_set(first), _as_set("-"), _as_set(last)]
        if last < first:
            self._fail("a wrong range")
        return [lambda text: first <= text <= last]

    def _class_member(self) -> str | Matches:
        char = self._take()
        return self._escape(is_in_class=True) if char == "\\" else char

    def _escape(self, *, is_in_class: bool) -> str | Matches:
        """Return the character, or the set of characters, that an escape means."""
        for expression in (_CODES, _CATEGORY):
            match = expression.match(self._pattern, self._pos)
            if match:
                self._pos = match.end()
                return self._character(match) if expression is _CODES else _of_category(match)
        char = self._take()
        if char.lower() in _SETS:
            members, is_negated = _SETS[char.lower()], char.isupper()
            return lambda text: (text in members) is not is_negated
        if char in _CONTROLS and not (char == "0" and self._peek().isdigit()):
            return _CONTROLS[char]
        if is_in_class and char == "b":
            return "\b"
        if char == "c" and re.match("[A-Za-z]", self._peek()):
            return chr(ord(self._take()) % 32)
        if char.isalnum():
            self._fail(f"\\{char}, which is not supported,")
        return char

    def _character(self, match: re.Match[str]) -> str:
        code = int(match[1] or match[2] or match[3], 16)
        following = _CODES.match(self._pattern, self._pos + 1) if self._peek() == "\\" else None
        if following and following[2] and 0xD800 <= code < 0xDC00 <= int(following[2], 16) < 0xE000:
            self._pos = following.end()
            return chr(0x10000 + (code - 0xD800) * 0x400 + int(following[2], 16) - 0xDC00)
        if code > 0x10FFFF:
            self._fail("a code beyond those of characters")
        return chr(code)


def _as_set(member: str | Matches) -> Matches:
    return member.__eq__ if isinstance(member, str) else member


def _of_category(match: re.Match[str]) -> Matches:
    name, is_negated = match[1], match[0].startswith("P")
    return lambda text: unicodedata.category(text).startswith(name) is not is_negated
