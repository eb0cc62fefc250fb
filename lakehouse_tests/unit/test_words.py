"""Phrases that are never plain English stand in no text of ours: strings, docstrings, comments, pages.

Single words are codespell's: ``docs/contributing/words.txt``. A participle alone is not a name either.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.places import ROOT

PHRASES = {
    r"(?<![Tt]here )\bis no (?!longer\b|more\b|later\b|less\b)\w+": "is not a ...; unknown ...; has no ...",
    r"(?<![Tt]here )\bare no (?!longer\b|more\b)\w+": "are not ...",
    r"\bof one's own\b": "your own",
    r"\bof ours\b": "our",
    r"\bstands? (twice|there|for itself|otherwise)\b": "is listed twice; exists",
    r"\bdeclared otherwise\b": "declared differently",
    r"(^|[.:] )Where (it|they|one|none|nothing|there|that|this|a|the|some|no)\b": "If ...",
    r"\bwhere (it|they|none|nothing|nobody|somebody|that|this) (is|are|was|were|has|have|does|do|can|cannot)\b": "if",
    r"\bmade anew\b": "created again",
    r"\bfor ever\b": "forever",
    r"\bso (many|few|much) [a-z]+s at (most|least)\b": "at most N ...",
    r"\b(is|are) no more\b": "no longer exists",
    r"\bis there already\b": "exists already",
    r"\b(nothing|nobody) (tells|told)\b": "unknown",
}
ALLOWED: dict[str, str] = {}
"""Lines that may hold a phrase: the file and a piece of the line, at most twenty."""
BARE_NAMES = frozenset(
    "told said meant held holds kept keeps found taken known given gone done lost shown named listed counted planned"
    " stored declared refused ordered used wrong other others same least most again means".split()
)
"""Words that cannot be searched for: each means something else in every function."""
EXEMPT_NAMES = {
    ("lakehouse/operations/maintain.py", "kept"): "a field of the JSON output of maintain",
    ("lakehouse/defs/resources.py", "given"): "a parameter of a public class",
}
ROOTS = ("lakehouse", "lakehouse_tests", "benchmarks")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docker").glob("*.md")]


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page; of a module those of its strings and comments."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            yield from enumerate(token.string.splitlines(), token.start[0])


def phrases_in(file: Path) -> list[str]:
    name = str(file.relative_to(ROOT))
    return [
        f"{name}:{number}: {line.strip()[:90]!r}: write {better!r}"
        for number, line in texts_of(file)
        for phrase, better in PHRASES.items()
        if re.search(phrase, line) and not (name in ALLOWED and ALLOWED[name] in line)
    ]


def bare_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each definition, parameter, variable or attribute that is a bare word."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                pass
            case _:
                continue
        if not name.isupper() and name.strip("_").lower() in BARE_NAMES:
            yield node.lineno, name


@pytest.mark.parametrize("root", ROOTS)
def test_no_text_in_python_has_a_phrase_that_is_not_plain(root: str) -> None:
    files = [file for file in sorted((ROOT / root).rglob("*.py")) if file != Path(__file__)]
    assert files
    assert [problem for file in files for problem in phrases_in(file)] == []


def test_no_page_has_a_phrase_that_is_not_plain() -> None:
    pages = [page for page in PAGES if page.name != "style.md"]
    assert [problem for page in pages for problem in phrases_in(page)] == []


def test_few_lines_are_allowed_to_differ() -> None:
    assert len(ALLOWED) <= 20


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "def held(): ...",
        "class Known: ...",
        "lambda others: 0",
        "self.kept = 1",
        "for _, taken in (): ...",
        "(gone := 1)",
        "import re as shown",
        "try: ...\nexcept OSError as lost: ...",
    ],
)
def test_a_bare_participle_is_detected(source: str) -> None:
    assert len([*bare_names(source)]) == 1


def test_a_name_with_a_noun_and_a_keyword_of_another_program_are_allowed() -> None:
    assert [*bare_names("found_rows = read(other=1)\nKEPT = rows.held")] == []


@pytest.mark.parametrize("root", ROOTS)
def test_no_name_is_a_bare_participle(root: str) -> None:
    problems = [
        f"{name}:{line}: {word!r} cannot be searched for: use a noun, such as {word.strip('_').lower()}_rows"
        for file in sorted((ROOT / root).rglob("*.py"))
        for name in [str(file.relative_to(ROOT))]
        for line, word in bare_names(file.read_text(encoding="utf-8"))
        if (name, word) not in EXEMPT_NAMES
    ]
    assert problems == []


def test_each_exempt_name_is_in_its_file() -> None:
    for name, word in EXEMPT_NAMES:
        assert word in {bare_word for _, bare_word in bare_names((ROOT / name).read_text(encoding="utf-8"))}
