"""An error of another program as the chain of its causes, each with its class, its condition and its own words.

The chain is that of the program itself: asked of Java, or as a Spark Connect server told it. Only where neither can be
had is it read from the text. What an error quotes, be it a value, a name or a path, is masked: it says what somebody
else wrote.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

SERVED = "causes_of_the_server"
"""The attribute of an error over Spark Connect that holds its chain, as ``connect`` keeps it."""


class Cause(NamedTuple):
    """One error of a chain."""

    kind: str
    """Its class, with its package; empty where it is not known."""
    condition: str
    """Spark's name for it; empty where it has none."""
    said: str
    """All that it says, without its class and its condition."""
    code: str = ""
    """Of gRPC, where a server said nothing else."""
    number: int | None = None
    """Of the system."""

    @property
    def line(self) -> str:
        """What it says in its first line that is not empty."""
        return next((line.strip() for line in self.said.splitlines() if line.strip()), "")


_LONGEST_CHAIN = 30
_CLASS = r"(?:[a-z_][\w$]*\.)+[A-Z][\w$]*"
_HEAD = re.compile(rf"(?:An error occurred while calling \S+\n)?(?:: |\()?(?P<kind>{_CLASS})(?:: |\) |(?=\n|$))")
_CONDITION = re.compile(r"\[(?P<named>[A-Z0-9]+(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)?)\]\s?")
# Delta's own sentences cannot be made in PySpark, but the class of error is named
_UNMADE = re.compile(r"\[INTERNAL_ERROR\] Cannot find main error class '(?P<named>[A-Z0-9_.]+)'")
_STAGE = re.compile(
    r"Job aborted due to stage failure: .*?Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ", re.DOTALL
)
_MARK = re.compile(r"(?P<escaping>\\+)|(?P<mark>['\"`])")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]{0,30}:/+[^\s'\"`<>]+")
_ELEMENT = re.compile(r"<(?!Code>)(\w+)>[^<]*</\1>")
_FRAME = re.compile(r"\n(?:\t| +)(?:at |\.\.\. \d+ more)[^\n]*")
_DETAILS = re.compile(r"\bdetails = \"?([^\n\"]+)")
_OS_ERROR = re.compile(r"\(os error (\d+)\)\s*\Z")
_LIBRARIES = {"_internal": "deltalake.exceptions"}
_NEXT = re.compile(r"(?<=\n)Caused by: ")


def error_text(error: BaseException) -> str:
    """Return all that an error of Spark says: Delta's own errors fail while their message is made."""
    try:
        return str(error)
    except Exception as cause:
        return str(cause)


def causes_of(error: BaseException) -> list[Cause]:
    """Return the chain of an error, outermost first; never empty."""
    served: list[Cause] | None = getattr(error, SERVED, None)
    if served:
        return served
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if java is not None:
        with suppress(Exception):  # a Java that has ended cannot be asked
            return list(_asked(java))
    return _read(error)


def masked(text: str, place: str = "") -> str:
    """A text of the same length without what it quotes; also without the name of a place, wherever it stands."""
    if place:
        text = text.replace(place, "_" * len(place))
    text = _without_quoted(text)
    for other in (_ADDRESS, _ELEMENT):
        text = other.sub(lambda found: "_" * len(found[0]), text)
    return text


def _without_quoted(text: str) -> str:
    """A text without what is in quotes that no letter touches from outside; one look at each mark, however many."""
    kept, done = list[str](), 0
    for start, end in _pairs(text):
        if start >= done and not _is_of_a_word(text[start - 1 : start]) and not _is_of_a_word(text[end : end + 1]):
            kept += [text[done:start], "_" * (end - start)]
            done = end
    return "".join([*kept, text[done:]])


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """Where each mark begins, in order, and where the next such one ends that no backslash escapes."""
    escaped, marks = -1, list[tuple[int, str, bool]]()
    for found in _MARK.finditer(text):
        if found["escaping"]:
            escaped = found.end() if len(found[0]) % 2 else -1
        else:
            marks.append((found.start(), found[0], found.start() == escaped))
    closing: dict[str, int] = {}
    pairs = []
    for start, mark, is_escaped in reversed(marks):
        if mark in closing:
            pairs.append((start, closing[mark]))
        if not is_escaped:
            closing[mark] = start + 1
    return reversed(pairs)


def _is_of_a_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def make_cause(kind: str, condition: str, said: str) -> Cause:
    """One error of a chain; its condition is read from the beginning of what it says where it is not given.

    What the error of a job quotes of its task is left out: the task's own is another of the chain.
    """
    found = None if condition else _UNMADE.match(said) or _CONDITION.match(said)
    named = found["named"] if found else condition
    begins = _CONDITION.match(said)
    if begins and begins["named"] == named:
        said = said[begins.end() :]
    return Cause(kind, named, "Job aborted due to stage failure" if _STAGE.match(said) else said)


def _asked(java: Any) -> Iterator[Cause]:
    """The chain as Java tells it."""
    for _ in range(_LONGEST_CHAIN):
        if java is None:
            return
        condition, said = _condition_of(java), ""
        with suppress(Exception):  # a sentence that cannot be made
            said = java.getMessage() or ""
        yield make_cause(str(java.getClass().getName()), condition, said)
        inner = java.getCause()
        if inner is None:
            yield from causes_of_task(said)
        java = inner


def _condition_of(java: Any) -> str:
    """Spark's name for an error of Java; empty where it is none of Spark's."""
    with suppress(Exception):
        from pyspark import SparkContext  # noqa: PLC0415 - most errors are none of Spark's

        if SparkContext._jvm is not None:
            return str(SparkContext._jvm.PythonErrorUtils.getCondition(java) or "")
        return str(java.getCondition() or "")
    return ""


def causes_of_task(said: str) -> Iterator[Cause]:
    """The chain of a task's error that could not be sent, as the error of its job quotes it."""
    found = _STAGE.match(said)
    if found:
        yield from _sections(said[found.end() :])


def _read(error: BaseException) -> list[Cause]:
    """The chain as the text of an error tells it, which may hold Java's."""
    condition, code = "", ""
    with suppress(Exception):  # a session that has ended cannot be asked
        condition = getattr(error, "getCondition", str)() or ""
    with suppress(Exception):
        code = error.getGrpcStatusCode().name if not condition else ""  # type: ignore[attr-defined]
    trace = ""
    with suppress(Exception):
        trace = error.getStackTrace() or ""  # type: ignore[attr-defined]
    text = error_text(error)
    outer, *inner = _sections(trace or text)
    said = text.removesuffix(trace).removesuffix("\n\nJVM stacktrace:\n") if trace else outer.said
    if code and (words := _DETAILS.search(text)):
        said = words[1]
    kind = outer.kind or f"{_LIBRARIES.get(type(error).__module__, type(error).__module__)}.{type(error).__name__}"
    first = make_cause(kind, condition or outer.condition, said)
    return [first._replace(code="" if first.condition else code, number=_number(error, first.said)), *inner]


def _number(error: BaseException, said: str) -> int | None:
    """The system's number of an error, which Rust writes behind its last words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _OS_ERROR.search(said)
    return int(found[1]) if found else None


def _sections(text: str) -> Iterator[Cause]:
    """The errors of a trace: one begins behind the calls of the one before it, and nowhere else."""
    hidden = masked(text)
    begins = [0, *(found.end() for found in _NEXT.finditer(hidden) if _follows_calls(hidden[: found.start()]))]
    for start, end in zip(begins, [*begins[1:], len(text)], strict=True):
        calls = _FRAME.search(hidden, start, end)
        yield _section(text[start : calls.start() if calls else end])


def _follows_calls(before: str) -> bool:
    last = before.rstrip("\n").rpartition("\n")
    return bool(_FRAME.match(f"\n{last[2]}"))


def _section(text: str) -> Cause:
    head = _HEAD.match(text)
    said = text[head.end() :] if head else text
    task = _STAGE.match(said)
    if task:
        return _section(said[task.end() :])
    return make_cause(head["kind"] if head else "", "", said.strip("\n"))
