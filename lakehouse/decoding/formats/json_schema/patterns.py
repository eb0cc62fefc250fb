"""Match texts with regular expressions in linear time, so that no record and no schema can make a batch hang.

A pattern becomes an automaton whose states are made when a text first reaches them.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Iterable

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.json_schema.pattern_syntax import PatternReader

_MAX_TRANSITIONS, _MAX_KEPT_STEPS = 20_000, 200_000  # that are kept
_MAX_WORK = 5_000_000  # letters of a text times steps of a pattern: some seconds at most
_END = 0  # the step that ends a match


class Pattern:
    """A pattern that is searched for in texts; raises ``PatternError`` if it cannot be used."""

    def __init__(self, text: str) -> None:
        reader = PatternReader(text)
        self._steps, self._first = reader.steps, reader.start
        self._states: dict[frozenset[int], _State] = {}
        self._transition_count = self._kept_steps = 0
        self._start = _State(self, self._reach([self._first], "^"), _END in self._reach([self._first], "^$"))

    def is_in(self, text: str) -> bool:
        """Whether a part of a text matches; raises ``Rejection`` if the text is too long for the pattern."""
        if len(text) * len(self._steps) > _MAX_WORK:
            raise Rejection("too_large", f"a text of {len(text):,} letters is too long for a pattern of its schema")
        state = self._start
        for char in text:
            if state.is_match:
                return True
            state = state[char]
        return state.is_match_at_end

    def next_state(self, steps: Iterable[int], char: str) -> "_State":
        """The state after a character; a match may also begin there."""
        self._transition_count += 1
        if self._transition_count > _MAX_TRANSITIONS or self._kept_steps > _MAX_KEPT_STEPS:
            self._forget()
        taken_steps = [step for step in map(self._steps.__getitem__, steps) if step.matches and step.matches(char)]
        reached_steps = self._reach([self._first, *(step.followers[0] for step in taken_steps)], "")
        if reached_steps not in self._states:
            self._kept_steps += len(reached_steps)
            self._states[reached_steps] = _State(self, reached_steps, _END in self._reach(reached_steps, "$"))
        return self._states[reached_steps]

    def _reach(self, steps: Iterable[int], anchors: str) -> frozenset[int]:
        """The steps that are reached without a character, where these anchors hold."""
        reached_steps, new_steps = set[int](), [*steps]
        while new_steps:
            number = new_steps.pop()
            if number not in reached_steps:
                reached_steps.add(number)
                step = self._steps[number]
                if not step.matches and step.anchor in anchors:
                    new_steps += step.followers
        return frozenset(reached_steps)

    def _forget(self) -> None:
        for state in (self._start, *self._states.values()):
            state.clear()
        self._states.clear()
        self._transition_count = self._kept_steps = 0


class _State(dict[str, "_State"]):
    """The steps that a text has reached, and the state after each character that followed so far."""

    def __init__(self, pattern: Pattern, steps: frozenset[int], is_match_at_end: bool) -> None:
        super().__init__()
        self._pattern, self._steps = pattern, steps
        self.is_match, self.is_match_at_end = _END in steps, is_match_at_end

    def __missing__(self, char: str) -> "_State":
        self[char] = state = self._pattern.next_state(self._steps, char)
        return state
