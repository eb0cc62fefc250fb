"""The signs by which an error of another program is recognised; ``troubles`` lists those of each trouble."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Signs:
    """The signs of a trouble; each name matches all names that begin with it."""

    conditions: tuple[str, ...] = ()
    conditions_with_pattern: tuple[tuple[str, str], ...] = ()
    """Conditions that count only if their first line matches the pattern."""
    classes: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """gRPC status codes, for errors in which the server sent nothing else."""
    numbers: tuple[int, ...] = ()
    patterns: tuple[str, ...] = ()
    """Matched against the class and the message if neither a condition nor a known class decides."""


def of_system(text: str) -> str:
    """Return a pattern for a message of the system as Java quotes it: at the end, alone or after a path."""
    return rf"(^|: |\(){text}\)?$"
