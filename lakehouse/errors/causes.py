"""An error of another program as the chain of its causes, each with its class, its condition and its message.

The chain comes from the program itself: from Java, or from the Spark Connect server. It is parsed from the text only if
neither is available. Quoted values, names and paths are masked, because their text comes from somebody else.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import Any, NamedTuple, TypeVar

SERVER_CAUSES = "causes_of_the_server"
"""The attribute in which ``connect`` stores the chain of an error that came over Spark Connect."""
T = TypeVar("T")


class Cause(NamedTuple):
    """One error of a chain."""

    kind: str
    """Its class, with its package; empty if unknown."""
    condition: str
    """The error condition that Spark names; empty if there is none."""
    message: str
    """The whole message, without the class and the condition."""
    code: str = ""
    """The gRPC status code, if the server sent nothing else."""
    number: int | None = None
    """The errno of the operating system."""

    @property
    def line(self) -> str:
        """The first line of the message that is not empty."""
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


_LONGEST_CHAIN = 30
_CLASS = r"(?:[a-z_][\w$]*\.)+[A-Z][\w$]*"
_HEAD = re.compile(rf"(?:An error occurred while calling \S+\n)?(?:: |\()?(?P<kind>{_CLASS})(?:: |\) |(?=\n|$))")
_CONDITION = re.compile(r"\[(?P<condition>[A-Z0-9]+(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)?)\]\s?")
# PySpark cannot format Delta's own messages, but it names the error class
_UNFORMATTED = re.compile(r"\[INTERNAL_ERROR\] Cannot find main error class '(?P<condition>[A-Z0-9_.]+)'")
_STAGE_FAILURE = re.compile(
    r"Job aborted due to stage failure: .*?Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ", re.DOTALL
)
_BACKSLASHES_OR_QUOTE = re.compile(r"(?P<backslashes>\\+)|(?P<quote>['\"`])")
_URL = re.compile(r"\b[a-z][a-z0-9+]{0,30}:/+[^\s'\"`<>]+")
_XML_ELEMENT = re.compile(r"<(?!Code>)(\w+)>[^<]*</\1>")
_STACK_FRAME = re.compile(r"\n(?:\t| +)(?:at |\.\.\. \d+ more)[^\n]*")
_GRPC_DETAILS = re.compile(r"\bdetails = \"?([^\n\"]+)")
_OS_ERROR = re.compile(r"\(os error (\d+)\)\s*\Z")
_LIBRARIES = {"_internal": "deltalake.exceptions"}
_CAUSED_BY = re.compile(r"(?<=\n)Caused by: ")


def error_text(error: BaseException) -> str:
    """Return the full text of an error of Spark, even if formatting the message fails, as it does for Delta."""
    try:
        return str(error)
    except Exception as cause:
        return str(cause)


def causes_of(error: BaseException) -> list[Cause]:
    """Return the chain of an error, outermost first; never empty."""
    server_causes: list[Cause] | None = getattr(error, SERVER_CAUSES, None)
    if server_causes:
        return server_causes
    java_error = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if java_error is not None:
        with suppress(Exception):  # the JVM may have ended
            return list(_java_causes(java_error))
    return _parse_causes(error)


def mask_text(text: str, place: str = "") -> str:
    """Return a text of the same length with all quoted parts masked, and every occurrence of ``place``."""
    if place:
        text = text.replace(place, "_" * len(place))
    text = _mask_quoted(text)
    for pattern in (_URL, _XML_ELEMENT):
        text = pattern.sub(lambda match: "_" * len(match[0]), text)
    return text


def _mask_quoted(text: str) -> str:
    """Mask the parts in quotes, unless a letter touches a quote from outside. Visits each quote once."""
    pieces, copied_end = list[str](), 0
    for start, end in _quoted_spans(text):
        touches_word = _is_word_character(text[start - 1 : start]) or _is_word_character(text[end : end + 1])
        if start >= copied_end and not touches_word:
            pieces += [text[copied_end:start], "_" * (end - start)]
            copied_end = end
    return "".join([*pieces, text[copied_end:]])


def _quoted_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return, in order, the start of each quote and the end of the next equal quote that is not escaped."""
    escaped_at, quotes = -1, list[tuple[int, str, bool]]()
    for match in _BACKSLASHES_OR_QUOTE.finditer(text):
        if match["backslashes"]:
            escaped_at = match.end() if len(match[0]) % 2 else -1
        else:
            quotes.append((match.start(), match[0], match.start() == escaped_at))
    closing: dict[str, int] = {}
    spans = []
    for start, quote, is_escaped in reversed(quotes):
        if quote in closing:
            spans.append((start, closing[quote]))
        if not is_escaped:
            closing[quote] = start + 1
    return reversed(spans)


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def make_cause(kind: str, condition: str, message: str) -> Cause:
    """Create one error of a chain; an empty condition is read from the beginning of the message.

    The part of a job's error that quotes the error of its task is left out: the task's error is the next in the chain.
    """
    match = None if condition else _UNFORMATTED.match(message) or _CONDITION.match(message)
    name = match["condition"] if match else condition
    prefix = _CONDITION.match(message)
    if prefix and prefix["condition"] == name:
        message = message[prefix.end() :]
    return Cause(kind, name, "Job aborted due to stage failure" if _STAGE_FAILURE.match(message) else message)


def _java_causes(java_error: Any) -> Iterator[Cause]:
    for _ in range(_LONGEST_CHAIN):
        if java_error is None:
            return
        condition, message = _condition_of(java_error), ""
        with suppress(Exception):  # Java may fail to format the message
            message = java_error.getMessage() or ""
        yield make_cause(str(java_error.getClass().getName()), condition, message)
        inner = java_error.getCause()
        if inner is None:
            yield from causes_of_task(message)
        java_error = inner


def _condition_of(java_error: Any) -> str:
    """Return Spark's error condition of a Java error; empty if it is not an error of Spark."""
    with suppress(Exception):
        from pyspark import SparkContext  # noqa: PLC0415 - most errors do not come from Spark

        if SparkContext._jvm is not None:
            return str(SparkContext._jvm.PythonErrorUtils.getCondition(java_error) or "")
        return str(java_error.getCondition() or "")
    return ""


def causes_of_task(message: str) -> Iterator[Cause]:
    """Read the chain of a task's error from the message of its job, for errors that could not be serialised."""
    match = _STAGE_FAILURE.match(message)
    if match:
        yield from _parse_trace(message[match.end() :])


def _parse_causes(error: BaseException) -> list[Cause]:
    """Parse the chain from the text of an error, which may contain a Java trace."""
    condition, code = "", ""
    with suppress(Exception):  # the session may have ended
        condition = getattr(error, "getCondition", str)() or ""
    with suppress(Exception):
        code = error.getGrpcStatusCode().name if not condition else ""  # type: ignore[attr-defined]
    trace = ""
    with suppress(Exception):
        trace = error.getStackTrace() or ""  # type: ignore[attr-defined]
    text = error_text(error)
    outer, *inner = _parse_trace(trace or text)
    message = text.removesuffix(trace).removesuffix("\n\nJVM stacktrace:\n") if trace else outer.message
    if code and (details := _GRPC_DETAILS.search(text)):
        message = details[1]
    kind = outer.kind or f"{_LIBRARIES.get(type(error).__module__, type(error).__module__)}.{type(error).__name__}"
    first = make_cause(kind, condition or outer.condition, message)
    return [first._replace(code="" if first.condition else code, number=_os_number(error, first.message)), *inner]


def _os_number(error: BaseException, message: str) -> int | None:
    """Return the errno of an error, which Rust appends to its message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = _OS_ERROR.search(message)
    return int(match[1]) if match else None


def _parse_trace(text: str) -> Iterator[Cause]:
    """Read the errors of a trace; each one begins right after the stack frames of the one before it."""
    masked_text = mask_text(text)
    starts = [
        0,
        *(match.end() for match in _CAUSED_BY.finditer(masked_text) if _ends_with_frame(masked_text[: match.start()])),
    ]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        frames = _STACK_FRAME.search(masked_text, start, end)
        yield _parse_section(text[start : frames.start() if frames else end])


def _ends_with_frame(text: str) -> bool:
    last_line = text.rstrip("\n").rpartition("\n")[2]
    return bool(_STACK_FRAME.match(f"\n{last_line}"))


def _parse_section(text: str) -> Cause:
    head = _HEAD.match(text)
    message = text[head.end() :] if head else text
    failure = _STAGE_FAILURE.match(message)
    if failure:
        return _parse_section(message[failure.end() :])
    return make_cause(head["kind"] if head else "", "", message.strip("\n"))


def in_time(ask: Callable[[], T], limit: float | None = None) -> T:
    """Return the result of a call, or raise its error; ``None`` means that the call limits itself.

    Raises ``TimeoutError`` after ``limit`` seconds in total. After a timeout or a signal the thread is left behind; it
    ends with the process.
    """
    outcome = Future[T]()

    def call() -> None:
        try:
            outcome.set_result(ask())
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=call, daemon=True).start()
    if not wait([outcome], limit).done:
        raise TimeoutError(f"no complete answer within {limit or 0:.0f} seconds")
    return outcome.result()
