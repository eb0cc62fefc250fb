"""``topics``: the topics of a table that has several."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MAX_SHOWN = 5  # topics that a text names


@dataclass(frozen=True)
class TopicPattern:
    """Every topic whose whole name matches a regular expression, also one that is created later.

    Topics of the broker's own, such as those of its consumer groups, never match.
    """

    pattern: str

    def __repr__(self) -> str:
        """Return the pattern as it is declared."""
        return f"TopicPattern({self.pattern!r})"

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match, sorted, each once."""
        pattern = re.compile(self.pattern)
        return sorted({name for name in names if pattern.fullmatch(name)})


def describe_topics(topics: Sequence[str] | TopicPattern) -> str:
    """Return the topics as a sentence names them; of many, the first ones."""
    if isinstance(topics, TopicPattern):
        return f"topics that match {topics.pattern}"
    omitted_count = len(topics) - _MAX_SHOWN
    return f"topics {', '.join(topics[:_MAX_SHOWN])}" + (f" and {omitted_count} more" if omitted_count > 0 else "")
