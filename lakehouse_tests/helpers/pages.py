"""The code boxes of a page: what a reader types, and what is printed then.

A ``text`` box is the output of the ``sh`` box before it; if several follow, each of them is a possible output. ``...``
is any text, also none. The width of white space is not compared, nor is what differs in each run.
"""

import io
import re
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from lakehouse_tests.helpers.places import ROOT

START = ROOT / "docs" / "start"
HOW_TO = ROOT / "docs" / "how-to"
_BOX = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_DIFFERENT_IN_EACH_RUN = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC": "TIME",
    r"\b127\.0\.0\.1:\d+": "ADDRESS",
    r"\b\d+(?:\.\d+){2,}\b": "VERSION",
    r"(?<![\w./])(?:/[\w.@+-]+)+/": "/",  # the folders of an absolute path
    r"─+": "─",  # a line as wide as its table
}


class Step(NamedTuple):
    """A code box of a page that is not an output: its language, its text, and the outputs that it may have."""

    language: str
    text: str
    outputs: tuple[str, ...] = ()

    def shows(self, output: str) -> bool:
        """Whether the page shows this output of the step, or none."""
        return not self.outputs or any(matches(expected, output) for expected in self.outputs)


def read_steps(page: Path) -> list[Step]:
    """The steps of a page, in order; an output before the first step is an error."""
    steps: list[Step] = []
    for _, language, indented_text in _BOX.findall(page.read_text(encoding="utf-8")):
        text = dedent(indented_text)
        if language == "text":
            steps[-1] = steps[-1]._replace(outputs=(*steps[-1].outputs, text))
        else:
            steps.append(Step(language, text))
    return steps


def run_examples(page_name: str, examples: Iterable[str], names: dict[str, Any]) -> list[str]:
    """Run Python examples of a page, which read and define ``names``; return what each of them prints."""
    outputs = []
    for example in examples:
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(example, page_name, "exec"), names)  # noqa: S102 - the page's own examples
        outputs.append(out.getvalue())
    return outputs


def read_page(name: str) -> str:
    """The text of a page of ``docs/how-to``."""
    return (HOW_TO / f"{name}.md").read_text(encoding="utf-8")


def names_of_examples(text: str, count: int | None = None) -> dict[str, Any]:
    """What the first Python examples of a text define, or all of them."""
    names: dict[str, Any] = {"__name__": "page", "__file__": "page.py"}
    run_examples("page.md", re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:count], names)
    return names


def matches(expected: str, output: str) -> bool:
    """Whether an output is as a page shows it."""
    *parts, end = _without_differences(expected).split("...")
    remaining_output = _without_differences(output)
    if not parts:
        return remaining_output == end
    if not remaining_output.startswith(parts[0]):
        return False
    for part in parts:
        start = remaining_output.find(part)
        if start < 0:
            return False
        remaining_output = remaining_output[start + len(part.rstrip()) :]  # a space may end one part and start the next
    return remaining_output.endswith(end)


def _without_differences(text: str) -> str:
    """The words of an output, with a space before and after each."""
    for pattern, word in _DIFFERENT_IN_EACH_RUN.items():
        text = re.sub(pattern, word, text)
    return f" {' '.join(text.split())} "
